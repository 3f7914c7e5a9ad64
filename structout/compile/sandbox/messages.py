"""What the engine process and its workers say to each other, and the checks on what workers say.

A worker is trusted with nothing: what it answers is JSON, and is checked field by field before it is used.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

import attrs

from structout.compile.risk import Measure, Measures
from structout.errors import GrammarError
from structout.result import Err, Ok, Result

T = TypeVar("T", bound=attrs.AttrsInstance)


def _is_count(_tried: object, field: "attrs.Attribute[int]", value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{field.name} is not a count")


def _is_seconds(_tried: object, field: "attrs.Attribute[float]", value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise TypeError(f"{field.name} is not a number of seconds")


@attrs.frozen
class Tried:
    """A grammar that came through.

    Times are of the clock, but at most 10 ms more than of the processor: a process of low priority may have to wait.

    Attributes:
        backend: id of the backend that compiled it.
        compile_s: seconds to compile it.
        slowest_fill_s: seconds of the slowest of the fills that were tried.
        fills: how many that were.
        grown_bytes: by how much the process had grown when all this was done; 0 where that cannot be told.
        data: the grammar itself, for `structout.grammar.BoundBackend.load`; None if its backend has no such way, or it
            is too long (`structout.compile.sandbox.handing.MOST_BYTES`). It does not go through the pipe.
    """

    backend: str = attrs.field(validator=attrs.validators.instance_of(str))
    compile_s: float = attrs.field(validator=_is_seconds)
    slowest_fill_s: float = attrs.field(validator=_is_seconds)
    fills: int = attrs.field(validator=_is_count)
    grown_bytes: int = attrs.field(validator=_is_count)
    data: bytes | None = attrs.field(
        default=None, repr=False, validator=attrs.validators.optional(attrs.validators.instance_of(bytes))
    )


def _are_counts(_measured: object, _field: object, value: Measures) -> None:
    if not all(type(count) is int and count >= 0 for count in value.values()):
        raise TypeError("measures are counts")


@attrs.frozen
class Measured:
    """A spec that was measured, and not tried."""

    measures: Measures = attrs.field(validator=_are_counts)


@attrs.frozen
class Trying:
    """The worker turns to a backend; its answer is still to come."""

    backend: str


@attrs.frozen
class Through(Generic[T]):
    """What was asked for, come through; the worker is about to hand it over, and its answer is still to come."""

    value: T


@attrs.frozen
class Answer(Generic[T]):
    """What came of a job.

    Attributes:
        result: what to tell whoever asked.
        is_last: whether the worker must not be used any more.
        left: what `structout.compile.sandbox.handing.left` says, if the grammar was left to be taken over.
    """

    result: Result[T, GrammarError]
    is_last: bool = attrs.field(validator=attrs.validators.instance_of(bool))
    left: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        match self.result:
            case Ok(value):
                return {"value": attrs.asdict(value), "is_last": self.is_last, "left": self.left}
            case Err(error):
                return {"error": error.to_json(with_detail=True), "is_last": self.is_last}


def read_answer(
    line: bytes,
    job: int,
    backends: Collection[str],
    read: Callable[[Mapping[str, Any], Mapping[str, Any] | None], T],
) -> Answer[T] | Through[T] | Trying | None:
    """What a worker says of a job; None if it is no answer to it.

    Args:
        line: what it wrote.
        job: the number of the job, which every answer repeats.
        backends: ids of the backends that there are.
        read: makes of its JSON, and of what it says to have left if it does, what was asked for, and raises ValueError,
            TypeError, KeyError or AttributeError at anything else: by way of `read_tried` or `read_measured`.
    """
    try:
        data = json.loads(line)
        if type(data["job"]) is not int or data["job"] != job:
            return None
        if "trying" in data:
            return Trying(data["trying"]) if data["trying"] in backends else None
        if "through" in data:
            return Through(read(data["through"], None))
        result = Err(read_error(data["error"])) if "error" in data else Ok(read(data["value"], data.get("left")))
        return Answer(result, data["is_last"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def read_tried(backends: Collection[str], data: Mapping[str, Any]) -> Tried:
    """For `read_answer`, of one of these backends; without the grammar itself."""
    tried = Tried(**data)
    if tried.data is not None:
        raise TypeError("data does not go through the pipe")
    if tried.backend not in backends:
        raise ValueError("there is no such backend")
    return tried


def read_measured(data: Mapping[str, Any]) -> Measured:
    """For `read_answer`."""
    return Measured(defaultdict(int, {Measure(name): count for name, count in data["measures"].items()}))


def read_error(data: Mapping[str, Any]) -> GrammarError:
    """An error that another process made. Raises what `GrammarError.from_json` raises, also for wrong candidates."""
    error = GrammarError.from_json(data)
    if not all(isinstance(candidate, str) for candidate in error.candidates):
        raise TypeError("candidates are ids of backends")
    return error
