"""The plan as data: ``ironlease.plan/1``, see docs/reference/plan.md."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue

from ironlease.finding import Finding
from ironlease.schema import Items, Model

SCHEMA: Literal["ironlease.plan/1"] = "ironlease.plan/1"


class Decision(Model):
    """One value for a role and why it is what it is.

    ``key`` is ``role.variable``; with an item in brackets it explains a part of that value. ``skipped`` says what the
    kernel does not permit; the value is then None.
    """

    key: Annotated[str, Field(pattern=r"^[a-z_]+\.[a-z_]+(\[[^]]+\])?$")]
    value: JsonValue
    reason: str
    evidence: str
    source: Literal["stack", "probe", "inventory", "default"]
    changes_with: str
    skipped: str | None = None

    @property
    def is_item(self) -> bool:
        """Whether it explains one item of another decision's value."""
        return self.key.endswith("]")


class Change(Model):
    """One thing on the host that will be touched, or is compared and touched where it differs."""

    kind: Literal["package", "file", "service", "environment", "user"]
    what: str
    role: str
    state: Literal["new", "compare"]


class Reboots(Model):
    """How often the host will reboot, and why."""

    count: int = 0
    reasons: Items[str] = ()


class EstimatePart(Model):
    """One part of the expected time, with the sum that it comes from."""

    what: str
    minutes: float
    arithmetic: str


class Estimate(Model):
    """The expected time in minutes. Orders of magnitude, from measured rates; never a promise."""

    total: float
    parts: Items[EstimatePart]


class StackReference(Model):
    """Which stack file the plan was made from."""

    name: str
    sha256: str


class Plan(Model):
    """What will be done to one host, and why."""

    host: str
    stack: StackReference
    simulated: str | None
    decisions: Items[Decision]
    findings: Items[Finding]
    changes: Items[Change]
    reboots: Reboots
    estimate_minutes: Estimate

    @property
    def values(self) -> dict[str, dict[str, Any]]:
        """The decisions' values, nested by role."""
        nested: dict[str, dict[str, Any]] = {}
        for decision in self.decisions:
            if not decision.is_item:
                role, variable = decision.key.split(".")
                nested.setdefault(role, {})[variable] = decision.value
        return nested

    @property
    def blocking(self) -> list[Finding]:
        """The findings that stop provisioning."""
        return [finding for finding in self.findings if finding.severity == "block"]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as ``ironlease.plan/1``."""
        return {"schema": SCHEMA, **self.model_dump(mode="json"), "values": self.values}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Return the plan in ``document``; raises ValueError when it is none of this version."""
        if document.get("schema") != SCHEMA:
            raise ValueError(f"not {SCHEMA}: {document.get('schema')!r}")
        return cls.model_validate({key: value for key, value in document.items() if key not in ("schema", "values")})
