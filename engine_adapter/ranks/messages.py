"""What ranks say to each other in a step: JSON texts of a few ids, whatever the number of requests."""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

import attrs

from structout.errors import GrammarError

Failures: TypeAlias = tuple[tuple[str, GrammarError], ...]
"""Request ids with what they end with."""

_strings = attrs.validators.deep_iterable(attrs.validators.instance_of(str), attrs.validators.instance_of(tuple))


@attrs.frozen
class Report:
    """What one rank has come to since the step before.

    Attributes:
        ready: ids of requests that it has all for.
        failed: ids of requests that cannot go on here.
        late: ids of requests whose bitmask row this step has not got in time.
        missed: ids of those of them that are late by their own doing.
    """

    ready: tuple[str, ...] = attrs.field(default=(), validator=_strings)
    failed: Failures = ()
    late: tuple[str, ...] = attrs.field(default=(), validator=_strings)
    missed: tuple[str, ...] = attrs.field(default=(), validator=_strings)

    def to_bytes(self) -> bytes:
        failed = _failures_to_json(self.failed)
        return _dump({"ready": self.ready, "failed": failed, "late": self.late, "missed": self.missed})

    @classmethod
    def from_bytes(cls, text: bytes) -> "Report":
        """The inverse of `to_bytes`. Raises ValueError or TypeError for what that cannot have made."""
        data = _load(text, {"ready", "failed", "late", "missed"})
        failed = _failures_from_json(data["failed"])
        return cls(tuple(data["ready"]), failed, tuple(data["late"]), tuple(data["missed"]))


@attrs.frozen
class Agreed:
    """What all ranks do in this step. No id is in two of these.

    Attributes:
        ready: ids of requests that became ready on the last of the ranks, by arrival.
        ended: ids of requests that end now, by arrival, with what they end with.
        late: ids of requests that sit this step out.
    """

    ready: tuple[str, ...] = attrs.field(default=(), validator=_strings)
    ended: Failures = ()
    late: tuple[str, ...] = attrs.field(default=(), validator=_strings)

    def to_bytes(self) -> bytes:
        return _dump({"ready": self.ready, "ended": _failures_to_json(self.ended), "late": self.late})

    @classmethod
    def from_bytes(cls, text: bytes) -> "Agreed":
        """The inverse of `to_bytes`. Raises ValueError or TypeError for what that cannot have made."""
        data = _load(text, {"ready", "ended", "late"})
        return cls(tuple(data["ready"]), _failures_from_json(data["ended"]), tuple(data["late"]))


def _dump(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _load(text: bytes, names: set[str]) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict) or set(data) != names or not all(isinstance(each, list) for each in data.values()):
        raise ValueError("this is not what a rank says")
    return data


def _failures_to_json(failures: Failures) -> list[tuple[str, dict[str, Any]]]:
    return [(request_id, error.to_json(with_detail=True)) for request_id, error in failures]


def _failures_from_json(data: Iterable[Any]) -> Failures:
    return tuple((_string(request_id), GrammarError.from_json(error)) for request_id, error in data)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a request id is a text, not a {type(value).__name__}")
    return value
