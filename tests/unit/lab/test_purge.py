"""Which cached bases are still needed."""

import json

from ironlease.lab import lab


def test_bases_of_hosts_that_another_version_made_count_as_used(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "DATA_ROOT", tmp_path)
    records = {
        "one/hosts/lab1": json.dumps({"base": "ours", "layers": [], "bind_read_only": [], "route_out": True}),
        "two/hosts/lab1": json.dumps({"base": "older", "layers": []}),
        "two/hosts/lab2": json.dumps({"base": "newer", "profile": "h100"}),
        "two/hosts/lab3": '{"base": "bro',
    }
    for folder, text in records.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "machine.json").write_text(text, encoding="utf-8")

    assert lab._bases_in_use() == {"ours", "older", "newer"}
