"""What an inventory may say about a host: the ``ironlease_*`` variables, typed."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from ironlease.lease import Lease
from ironlease.schema import Items, Model, refuse, shown_value
from ironlease.stack.catalog import load_catalog
from ironlease.suggest import did_you_mean

PREFIX = "ironlease_"
# What a store may be; the scheme names the protocol, never a provider.
_STORE_SCHEMES = ("s3", "file")
_GIB_MAX = 4096
_LOCK_WAIT_MAX_SECONDS = 24 * 3600
DEFAULT_TRAINING_USER = "ironlease"


def _known_gpu(name: str) -> str:
    known = load_catalog().names()
    if name not in known:
        raise refuse(shown_value(name), f"A GPU of catalog/gpus.yml: {did_you_mean(name, known)}")
    return name


def _absolute(path: str) -> str:
    if not PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise refuse(shown_value(path), "An absolute path on the host, without `..`.")
    return path


def _store_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password or "@" in parts.netloc:
        raise refuse(
            "a URL with a name or a password in it (not shown)", "A URL alone; keys are given when the store is set up."
        )
    if parts.scheme not in _STORE_SCHEMES or not (parts.netloc or parts.path.strip("/")):
        raise refuse(shown_value(url), "A store such as s3://bucket/prefix or file:///mnt/backup.")
    return url


def _index_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise refuse(
            "a URL with a name or a password in it (not shown)",
            "A URL alone; write the credentials into the host's /root/.netrc, which pip reads.",
        )
    if parts.scheme not in ("https", "http", "file"):
        raise refuse(shown_value(url), "A package index such as https://mirror.example/simple.")
    return url


def _sysctl_value(value: object) -> object:
    # YAML makes 1 and "1" different things; to the kernel they are one.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


HostPath = Annotated[str, AfterValidator(_absolute)]
PositiveInt = Annotated[int, Field(ge=1)]


class Expect(Model):
    """What the lessor promised; acceptance measures against it."""

    gpu: Annotated[str, AfterValidator(_known_gpu)] | None = None
    gpus: PositiveInt | None = None
    link: Literal["nvlink", "pcie"] | None = Field(default=None, description="How the GPUs of one host are joined")
    fabric: Literal["infiniband", "roce", "ethernet"] | None = Field(
        default=None, description="How the hosts are joined"
    )
    nic_gbps: PositiveInt | None = Field(default=None, description="Speed of one network port of the fabric, decimal")
    nics: PositiveInt | None = None


class Run(Model):
    """One training run whose checkpoints are backed up."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    path: HostPath


class Checkpoints(Model):
    """Which checkpoints are kept, and where."""

    runs: Annotated[Items[Run], Field(min_length=1)]
    store: Annotated[str, AfterValidator(_store_url)]
    keep_last: PositiveInt = 3

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [run.name for run in self.runs]
        for name in names:
            if names.count(name) > 1:
                raise refuse(f"two runs with the name {name}", "A name of its own for each run.")
        return self


class Tuning(Model):
    """Deviations from the tuning that the plan chooses; each wins over it."""

    sysctl: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]*$")],
        Annotated[str, BeforeValidator(_sysctl_value), WithJsonSchema({"type": ["string", "integer"]})],
    ] = Field(default_factory=dict, description="Kernel parameters by name, such as vm.max_map_count")
    open_files: Annotated[int, Field(ge=1024, le=2**30)] | None = Field(
        default=None, description="Limit of open files per process (nofile)"
    )
    shm_gib: Annotated[int, Field(ge=1, le=_GIB_MAX)] | None = Field(default=None, description="Size of /dev/shm")


class HostVariables(Model):
    """All ``ironlease_*`` variables of one host."""

    stack: str | None = Field(
        default=None, alias="ironlease_stack", description="The stack to provision: a file name under stacks/"
    )
    lease: Lease | None = Field(default=None, alias="ironlease_lease")
    expect: Expect | None = Field(default=None, alias="ironlease_expect")
    checkpoints: Checkpoints | None = Field(default=None, alias="ironlease_checkpoints")
    tuning: Tuning = Field(default=Tuning(), alias="ironlease_tuning")
    training_user: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,30}$")] = Field(
        default=DEFAULT_TRAINING_USER,
        alias="ironlease_training_user",
        description="The unprivileged account that trainings run as; made when it is not there",
    )
    index_url: Annotated[str, AfterValidator(_index_url)] | None = Field(
        default=None,
        alias="ironlease_index_url",
        description="A mirror of the stack's own Python package index; hashes stay as they are",
    )
    apt_lock_wait_seconds: Annotated[int, Field(ge=0, le=_LOCK_WAIT_MAX_SECONDS)] | None = Field(
        default=None,
        alias="ironlease_apt_lock_wait_seconds",
        description="How long somebody else's apt or dpkg is waited for (600)",
    )


def variable_name(field: str) -> str:
    """Return the inventory's name of a field of :class:`HostVariables`."""
    return str(HostVariables.model_fields[field].alias)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a hosts.yml, for editors: Ansible's nesting with our variables typed."""
    variables = HostVariables.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions = variables.pop("$defs")
    ours = variables["properties"]
    names = "|".join(re.escape(name) for name in ours)
    definitions["variables"] = {
        "type": ["object", "null"],
        "properties": ours,
        "patternProperties": {f"^ironlease_(?!({names.replace('ironlease_', '')})$)": False},
    }
    definitions["group"] = {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            "hosts": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/variables"}},
            "vars": {"$ref": "#/$defs/variables"},
            "children": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/group"}},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ironlease inventory: an Ansible YAML inventory with ironlease_* variables",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/group"},
        "$defs": definitions,
    }
