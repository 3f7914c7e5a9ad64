"""Faults that a backend is known to have: each with an example that has to go on failing, and the reason.

They are kept in a JSON file in the plugin's package, which its `structout.BackendInfo` names::

    [{"reason": "...", "fault": {...}}]

The example is one that ``structout fuzz`` saved. What else looks like the fault (the same law broken in the same way,
with the same keywords or more) is no alarm either.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from structout.errors import describe_exception
from structout.fuzz.case import Case
from structout.fuzz.faults import Fault
from structout.fuzz.law import Violation
from structout.schema import check_schema
from structout.spec import JsonSchema


@attrs.frozen
class KnownFault:
    """A fault that is known, and why it is there."""

    fault: Fault
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "fault": self.fault.to_json()}


@attrs.frozen
class KnownFaults:
    """All of one backend's."""

    faults: tuple[KnownFault, ...] = ()

    @classmethod
    def read(cls, file: Path | None) -> "KnownFaults":
        """Those of a file; none where there is no file.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not what it should be.
        """
        if file is None:
            return cls()
        try:
            return cls(tuple(map(_known_fault, _listed(json.loads(file.read_text(encoding="utf-8"))))))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"{file} holds no known faults: {describe_exception(exc)}") from exc

    def write(self, file: Path) -> None:
        entries = [known.to_json() for known in self.faults]
        file.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def covers(self, violation: Violation, case: Case) -> KnownFault | None:
        """The known fault that a breach looks like."""
        return next((known for known in self.faults if known.fault.covers(violation, case)), None)

    def new(self, violations: Sequence[Violation], case: Case) -> list[Violation]:
        """Those of a case's breaches that no known fault accounts for."""
        return [violation for violation in violations if self.covers(violation, case) is None]


def _listed(entries: object) -> list[Any]:
    if not isinstance(entries, list):
        raise TypeError(f"it is no list but a {type(entries).__name__}")
    return entries


def _known_fault(entry: Mapping[str, Any]) -> KnownFault:
    fault, reason = Fault.from_json(entry["fault"]), entry["reason"]
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("a fault has no reason")
    spec = fault.case.spec
    if isinstance(spec, JsonSchema) and (error := check_schema(spec)):
        raise ValueError(f"the schema of a fault is none: {error.message}")
    return KnownFault(fault, reason)
