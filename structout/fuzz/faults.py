"""A law that a backend broke, on an example as small as it could be made, and the folder that keeps such examples."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from structout.fuzz.case import Case
from structout.fuzz.law import Law, Violation
from structout.result import Err, Ok
from structout.schema import walk
from structout.schema.loading import load_schema
from structout.spec import GrammarSpec, JsonSchema

DEFAULT_FOLDER: Final = Path(".structout", "faults")


def keywords_of(spec: GrammarSpec) -> frozenset[str]:
    """The keywords that stand in a JSON Schema, wherever; of another kind of spec the kind itself."""
    if not isinstance(spec, JsonSchema):
        return frozenset({spec.kind})
    match load_schema(spec):
        case Ok(schema):
            return frozenset(keyword for node in walk(schema, spec.dialect) for keyword in node.keywords) - {"$schema"}
        case Err():
            return frozenset()


_DIRECTIONS: Final = ("violates", "written", "refuses", "bit")
"""Evidence that tells faults of one law apart."""


@attrs.frozen
class Fault:
    """A broken law with the example that shows it.

    Attributes:
        backend: id of the backend.
        violation: the law, and what happened.
        case: the example.
    """

    backend: str
    violation: Violation
    case: Case

    @property
    def law(self) -> Law:
        return self.violation.law

    @property
    def keywords(self) -> frozenset[str]:
        return keywords_of(self.case.spec)

    @property
    def direction(self) -> tuple[str, ...]:
        """The law and what of it: two faults of one direction and one set of keywords are the same."""
        return (self.law.value, *(str(self.violation.evidence.get(name, "")) for name in _DIRECTIONS))

    def covers(self, violation: Violation, case: Case) -> bool:
        """Whether another breach looks like this fault in a bigger example."""
        other = Fault(self.backend, violation, case)
        is_alike = self.direction == other.direction and self.case.spec.kind == case.spec.kind
        return is_alike and self.keywords <= other.keywords

    @property
    def name(self) -> str:
        """A short name, the same for the same fault and example."""
        digest = hashlib.sha256(json.dumps(self.case.to_json(), sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.backend}-{self.law.value}-{digest}"

    def to_json(self) -> dict[str, Any]:
        return {"backend": self.backend, "violation": self.violation.to_json(), "case": self.case.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Fault":
        """The inverse of `to_json`."""
        return cls(data["backend"], Violation.from_json(data["violation"]), Case.from_json(data["case"]))


@attrs.frozen
class FaultFolder:
    """Faults as JSON files, one each: found once, they are looked at first the next time."""

    path: Path = DEFAULT_FOLDER

    def save(self, fault: Fault) -> Path:
        """Writes a fault; returns its file."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / f"{fault.name}.json"
        file.write_text(json.dumps(fault.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return file

    def of(self, backend: str) -> Iterator[Fault]:
        """The faults of a backend; a file that is none is left out."""
        for file in sorted(self.path.glob(f"{backend}-*.json")):
            try:
                yield Fault.from_json(json.loads(file.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError):
                continue

    def command(self, fault: Fault, plugins: tuple[str, ...] = (), against: str | None = None) -> str:
        """The command that shows a saved fault again; ``against`` is the backend that it was compared with."""
        options = f" --against {against}" if against and fault.law is Law.MASK_DIFFERENCE else ""
        options += "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)
        file = shlex.quote(str(self.path / f"{fault.name}.json"))
        return f"structout fuzz --case {file} --backend {fault.backend}{options}"
