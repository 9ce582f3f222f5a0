from __future__ import annotations

import pytest

from ironlease import files

SCHEMA = "ironlease.some/1"


def test_a_document_is_read_back(tmp_path):
    files.write_json(tmp_path / "some.json", {"schema": SCHEMA, "a": "ü"})

    assert files.read_document(tmp_path / "some.json", SCHEMA) == {"schema": SCHEMA, "a": "ü"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b'{"schema": "ironlease.some/2"}', b'["ironlease.some/1"]', None],
)
def test_whatever_else_is_there_is_no_document(tmp_path, content):
    path = tmp_path / "some.json"
    if content is not None:
        path.write_bytes(content)

    assert files.read_document(path, SCHEMA) is None
