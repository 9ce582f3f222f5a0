"""What a stack file may say: one tested set of versions, everything in it with a hash or a signed origin."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from ironlease.schema import Items, Model, refuse
from ironlease.stack.catalog import ComputeCapability

AptRole = Literal["host_base", "pytorch"]
_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_CudaVersion = Annotated[str, Field(pattern=r"^\d{2}\.\d{1,2}$")]
_DriverVersion = Annotated[str, Field(pattern=r"^\d{3}\.\d{2,3}(\.\d{2})?$")]
_HttpsUrl = Annotated[str, Field(pattern=r"^https://[^@\s]+$")]
_Bytes = Annotated[int, Field(ge=1)]


class Distribution(Model):
    """An operating system that the stack runs on, with the names of its packages.

    These packages come from the distribution's own archive, whose signature APT checks with the distribution's keys.
    """

    id: Literal["debian", "ubuntu"]
    release: str
    python: Annotated[str, Field(pattern=r"^/usr/bin/python3\.\d{1,2}$", description="Interpreter of the environment")]
    apt: dict[AptRole, Items[_Name]] = Field(description="Package names by the role that needs them")

    @property
    def python_version(self) -> str:
        """The interpreter's version, such as 3.11."""
        return self.python.removeprefix("/usr/bin/python")

    @property
    def packages(self) -> list[str]:
        """All package names, sorted."""
        return sorted({name for names in self.apt.values() for name in names})


class AptRepository(Model):
    """A signed APT repository beside the distribution's own."""

    url: Annotated[str, Field(pattern=r"^https://[^@\s]+/$", description="Base URL; {distribution} is filled in")]
    distributions: dict[str, str] = Field(description="What {distribution} is, by id and release: debian-12: debian12")
    key_url: Annotated[str, Field(description="The key's URL, relative to the filled-in base URL")]
    key_fingerprint: Annotated[str, Field(pattern=r"^[0-9A-F]{40}$", description="The only key that may sign it")]


class AptPackage(Model):
    """A package from the repository; a version where the exact one matters."""

    name: _Name
    version: str | None = None


class Driver(Model):
    """NVIDIA's kernel driver."""

    version: _DriverVersion
    kernel_module: Literal["open", "proprietary"]
    packages: Annotated[Items[AptPackage], Field(min_length=1)]


class Component(Model):
    """Another part of NVIDIA's software, by its version and packages."""

    version: str
    packages: Annotated[Items[AptPackage], Field(min_length=1)]


class Nvidia(Model):
    """Everything below the Python wheels on an NVIDIA machine."""

    cuda: _CudaVersion
    repository: AptRepository
    driver: Driver
    fabric_manager: Component
    toolkit: Component
    nccl: Component


class PythonPackage(Model):
    """One pinned distribution with the hashes of the wheels that may be installed."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", description="Normalised name")]
    version: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+!-]*$")]
    sha256: Annotated[Items[_Sha256], Field(min_length=1)]
    download_bytes: _Bytes
    installed_bytes: _Bytes


class Python(Model):
    """The framework's environment. ``packages`` is written by ``python -m ironlease.stack.pin``."""

    requires: Annotated[Items[str], Field(min_length=1, description="What people chose; the pins follow from it")]
    index_url: _HttpsUrl | None = Field(
        default=None, description="Index of what the default one does not have; null where the default one has all"
    )
    cuda: _CudaVersion | None = Field(default=None, description="CUDA version that the framework's wheel is built for")
    compute_capabilities: Items[ComputeCapability] = Field(
        default=(), description="GPUs that the framework's wheel has machine code for"
    )
    ptx: ComputeCapability | None = Field(
        default=None, description="The wheel's intermediate code, which newer GPUs can compile; null when it has none"
    )
    packages: Annotated[Items[PythonPackage], Field(min_length=1)]


class Baseline(Model):
    """The small training that proves the stack on a host."""

    processes: Annotated[int, Field(ge=2)]
    backend: Literal["gloo", "nccl"] = Field(description="What the processes must have talked through")


class Stack(Model):
    """One tested set of versions: the only place where a version is written."""

    schema_: Literal["ironlease.stack/1"] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str
    description: str
    accelerator: Literal["cpu", "nvidia"]
    architecture: Literal["x86_64"]
    tested: Items[str] = Field(description="What was really run, where, and with what result")
    not_tested: Items[str] = Field(description="What was not, so that nobody takes it for tested")
    distributions: Annotated[Items[Distribution], Field(min_length=1)]
    nvidia: Nvidia | None = None
    python: Python
    baseline: Baseline
    _sha256: str = PrivateAttr(default="")

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file that the stack was read from."""
        return self._sha256

    def read_from(self, content: bytes) -> Self:
        """Return this stack with the hash of the file's content."""
        copy = self.model_copy()
        copy._sha256 = hashlib.sha256(content).hexdigest()  # noqa: SLF001 - a copy of itself
        return copy

    def distribution(self, id_: str, release: str) -> Distribution | None:
        """Return the entry for an operating system, or None when the stack does not support it."""
        return next((entry for entry in self.distributions if (entry.id, entry.release) == (id_, release)), None)

    def versions(self) -> dict[str, str]:
        """Return the versions worth a line in a list: driver, CUDA, NCCL and what was asked for in Python."""
        shown: dict[str, str] = {}
        if self.nvidia is not None:
            shown |= {"driver": self.nvidia.driver.version, "cuda": self.nvidia.cuda}
        chosen = [requirement.partition("==")[0] for requirement in self.python.requires]
        pins = {package.name: package.version for package in self.python.packages}
        shown |= {name: pins[name] for name in chosen}
        nccl = pins.get("nvidia-nccl-cu12") or pins.get("nvidia-nccl-cu13")
        return shown | ({"nccl": nccl} if nccl else {})

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.accelerator == "nvidia") != (self.nvidia is not None):
            raise refuse(f"accelerator {self.accelerator} with nvidia: {self._has(self.nvidia)}", _ACCELERATOR_RULE)
        if (self.python.cuda is not None) != (self.nvidia is not None):
            raise refuse(
                f"nvidia: {self._has(self.nvidia)} with python.cuda: {self._has(self.python.cuda)}", _CUDA_RULE
            )
        self._check_python()
        if self.nvidia is not None:
            self._check_repository(self.nvidia.repository)
        return self

    def _check_python(self) -> None:
        names = [package.name for package in self.python.packages]
        if names != sorted(set(names)):
            raise refuse("python.packages out of order, or with a name twice", "Packages sorted by name, each once.")
        for requirement in self.python.requires:
            name, _, version = requirement.partition("==")
            pinned = next((package.version for package in self.python.packages if package.name == name), None)
            if pinned is None or (version and version != pinned):
                raise refuse(
                    f"requiring {requirement} with {pinned or 'nothing'} pinned",
                    f"Pins that follow from `requires`: python -m ironlease.stack.pin {self.name}",
                )

    def _check_repository(self, repository: AptRepository) -> None:
        supported = {f"{entry.id}-{entry.release}" for entry in self.distributions}
        if missing := sorted(supported - set(repository.distributions)):
            raise refuse(f"without a repository for {missing[0]}", "A signed origin for each supported distribution.")

    @staticmethod
    def _has(part: object) -> str:
        return "absent" if part is None else "present"


_ACCELERATOR_RULE = "`nvidia:` exactly when accelerator is nvidia."
_CUDA_RULE = "`python.cuda` exactly when there is `nvidia:`."


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stack file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Stack.model_json_schema(by_alias=True)}
