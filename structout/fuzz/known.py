"""Faults that a backend is known to have: each with an example that has to go on failing, and the reason.

They are kept in a JSON file in the plugin's package, which its `structout.BackendInfo` names::

    [{"reason": "...", "fault": {...}}]

The example is one that ``structout fuzz`` saved. What else looks like the fault (the same law broken in the same way,
with the same keywords or more) is no alarm either.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from structout.fuzz.case import Case
from structout.fuzz.faults import Fault
from structout.fuzz.law import Violation


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
            OSError, ValueError, KeyError, TypeError: it is not what it should be.
        """
        if file is None:
            return cls()
        entries = json.loads(file.read_text(encoding="utf-8"))
        return cls(tuple(KnownFault(Fault.from_json(entry["fault"]), str(entry["reason"])) for entry in entries))

    def write(self, file: Path) -> None:
        entries = [known.to_json() for known in self.faults]
        file.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def covers(self, violation: Violation, case: Case) -> KnownFault | None:
        """The known fault that a breach looks like."""
        return next((known for known in self.faults if known.fault.covers(violation, case)), None)

    def new(self, violations: Sequence[Violation], case: Case) -> list[Violation]:
        """Those of a case's breaches that no known fault accounts for."""
        return [violation for violation in violations if self.covers(violation, case) is None]
