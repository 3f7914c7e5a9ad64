"""What can go wrong, closed, and the one table that says what follows from it.

::

    ErrorKind
    ├── the request's fault
    │   ├── INVALID_SPEC        malformed, empty or contradictory
    │   ├── UNSATISFIABLE       well-formed, but no text satisfies it
    │   ├── UNSUPPORTED         valid, but no backend enforces it under the spec's policy
    │   └── TOO_COMPLEX         over a limit, which the message names
    ├── either's fault, said by the error
    │   ├── TIMED_OUT           caller: the spec is over its budget; service: we were too slow
    │   ├── UNAVAILABLE         caller: names a backend that is not here; service: no backend is
    │   └── DEAD_END            caller: the grammar leads where no token can follow; service: the backend does
    ├── the service's fault
    │   ├── OVERLOADED          a bounded queue is full
    │   ├── BACKEND_FAILURE     a backend raised, crashed, was killed or returned a wrong type
    │   ├── REJECTED_TOKEN      a token that was sampled under a mask was refused by the matcher
    │   ├── ENGINE_FAILURE      the engine itself failed (model, scheduler, output)
    │   └── UNUSABLE_RESPONSE   it ended, and there is nothing usable in it
    └── nobody's fault
        └── CANCELLED           whoever asked does not want it any more
"""

import enum
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs


class ErrorKind(enum.StrEnum):
    """The closed set of failures; the module's docstring draws it as a tree."""

    INVALID_SPEC = "invalid_spec"
    UNSATISFIABLE = "unsatisfiable"
    UNSUPPORTED = "unsupported"
    TOO_COMPLEX = "too_complex"
    TIMED_OUT = "timed_out"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    BACKEND_FAILURE = "backend_failure"
    DEAD_END = "dead_end"
    REJECTED_TOKEN = "rejected_token"
    ENGINE_FAILURE = "engine_failure"
    UNUSABLE_RESPONSE = "unusable_response"
    CANCELLED = "cancelled"


class Fault(enum.StrEnum):
    """Who has to change something for the same request to succeed."""

    CALLER = "caller"
    SERVICE = "service"
    NOBODY = "nobody"


@attrs.frozen
class Consequence:
    """What follows from one kind of error at one party's fault.

    Attributes:
        http_status: status code of a reply that has not started yet.
        grpc_code: name of a canonical gRPC status code.
        finish_reason: of a choice or a stream that has already started.
        exit_code: of the command line: 2 the caller's fault, 1 ours, 130 cancelled.
        retry: whether the same request may succeed when it is sent again unchanged.
        cacheable: whether a cache may keep the verdict for later requests with the same spec.
        try_next: whether another backend is tried when the request has not named one.
    """

    http_status: int
    grpc_code: str
    finish_reason: str
    exit_code: int
    retry: bool
    cacheable: bool
    try_next: bool


def _caller(*, cacheable: bool, try_next: bool = False, grpc_code: str = "INVALID_ARGUMENT") -> Consequence:
    return Consequence(400, grpc_code, "error", 2, retry=False, cacheable=cacheable, try_next=try_next)


def _service(http: int, grpc_code: str, *, retry: bool = False, try_next: bool = False) -> Consequence:
    return Consequence(http, grpc_code, "error", 1, retry=retry, cacheable=False, try_next=try_next)


CONSEQUENCES: Mapping[ErrorKind, Mapping[Fault, Consequence]] = MappingProxyType(
    {
        ErrorKind.INVALID_SPEC: {Fault.CALLER: _caller(cacheable=True)},
        ErrorKind.UNSATISFIABLE: {Fault.CALLER: _caller(cacheable=True)},
        ErrorKind.UNSUPPORTED: {Fault.CALLER: _caller(cacheable=True, try_next=True)},
        ErrorKind.TOO_COMPLEX: {Fault.CALLER: _caller(cacheable=True, try_next=True)},
        ErrorKind.TIMED_OUT: {
            Fault.SERVICE: _service(504, "DEADLINE_EXCEEDED", retry=True),
            Fault.CALLER: _caller(cacheable=False),
        },
        ErrorKind.OVERLOADED: {Fault.SERVICE: _service(503, "RESOURCE_EXHAUSTED", retry=True)},
        ErrorKind.UNAVAILABLE: {
            Fault.CALLER: _caller(cacheable=False, grpc_code="FAILED_PRECONDITION"),
            Fault.SERVICE: _service(503, "UNAVAILABLE", try_next=True),
        },
        ErrorKind.BACKEND_FAILURE: {Fault.SERVICE: _service(500, "INTERNAL", try_next=True)},
        ErrorKind.DEAD_END: {
            Fault.CALLER: _caller(cacheable=False),
            Fault.SERVICE: _service(500, "INTERNAL"),
        },
        ErrorKind.REJECTED_TOKEN: {Fault.SERVICE: _service(500, "INTERNAL")},
        ErrorKind.ENGINE_FAILURE: {Fault.SERVICE: _service(500, "INTERNAL", retry=True)},
        ErrorKind.UNUSABLE_RESPONSE: {Fault.SERVICE: _service(500, "INTERNAL", retry=True)},
        ErrorKind.CANCELLED: {
            Fault.NOBODY: Consequence(499, "CANCELLED", "abort", 130, retry=False, cacheable=False, try_next=False)
        },
    }
)
"""The table. A kind's first fault is the one it has when the error does not say."""


def _default_fault(error: "GrammarError") -> Fault:
    return next(iter(CONSEQUENCES[error.kind]))


_optional_text = attrs.validators.optional(attrs.validators.instance_of(str))
_optional_int = attrs.validators.optional(attrs.validators.instance_of(int))


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@attrs.frozen(kw_only=True)
class GrammarError:
    """One failure: who, where, and what to do next. A value; it is returned, never raised.

    Attributes:
        kind: see `ErrorKind`.
        message: one or two sentences for the caller, with no internals in them.
        fault: who has to change something; the kind's usual one when not given.
        pointer: RFC 6901 JSON pointer into the schema or the request, "" for its root; None when there is none.
        keyword: JSON Schema keyword or request field at fault.
        offset: character offset in a text that is not JSON (a regex, a grammar, text that does not parse).
        backend: id of the backend that refused or failed.
        distribution: name and version of the installed package that provides the backend.
        hint: what to do about it, as an imperative.
        candidates: ids of backends that would take the spec.
        detail: for the operator's log only (an exception's text, a signal); `to_json` leaves it out unless asked.
    """

    kind: ErrorKind = attrs.field(validator=attrs.validators.instance_of(ErrorKind))
    message: str = attrs.field(validator=attrs.validators.instance_of(str))
    fault: Fault = attrs.field(default=attrs.Factory(_default_fault, takes_self=True))
    pointer: str | None = attrs.field(default=None, validator=_optional_text)
    keyword: str | None = attrs.field(default=None, validator=_optional_text)
    offset: int | None = attrs.field(default=None, validator=_optional_int)
    backend: str | None = attrs.field(default=None, validator=_optional_text)
    distribution: str | None = attrs.field(default=None, validator=_optional_text)
    hint: str | None = attrs.field(default=None, validator=_optional_text)
    candidates: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    detail: str | None = attrs.field(default=None, validator=_optional_text)

    @fault.validator
    def _fault_is_possible(self, _attribute: object, fault: Fault) -> None:
        if fault not in CONSEQUENCES[self.kind]:
            raise ValueError(f"{self.kind.name} cannot be the fault of {fault!r}")

    @property
    def consequence(self) -> Consequence:
        return CONSEQUENCES[self.kind][self.fault]

    def to_json(self, *, with_detail: bool = False) -> dict[str, Any]:
        """A JSON-able dict of the fields that are set; ``with_detail`` for logs and worker pipes, never for clients."""
        values = attrs.asdict(self, recurse=False) | {"kind": self.kind.value, "fault": self.fault.value}
        values["candidates"] = list(self.candidates) or None
        if not with_detail:
            del values["detail"]
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "GrammarError":
        """The inverse of `to_json`. Raises TypeError or ValueError on data that `to_json` cannot have made."""
        return cls(**(dict(data) | {"kind": ErrorKind(data["kind"]), "fault": Fault(data["fault"])}))

    def __str__(self) -> str:
        where = "".join(
            part
            for part in (
                f" [{self.backend}]" if self.backend else "",
                f" at {self.pointer or 'the root'}" if self.pointer is not None else "",
                f" at offset {self.offset}" if self.offset is not None else "",
            )
        )
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.kind.value}{where}: {self.message}{hint}"


class GrammarFailure(Exception):
    """What a plugin raises where it has no way to return a `GrammarError`: a matcher that a text has led to a limit.

    Whatever else a plugin raises is BACKEND_FAILURE, and reaches no caller.

    Attributes:
        error: what to tell the caller.
    """

    def __init__(self, error: GrammarError) -> None:
        super().__init__(str(error))
        self.error = error


def describe_exception(exc: BaseException) -> str:
    """Type and text of an exception, for ``detail``. A foreign exception's own ``__str__`` may raise; this does not."""
    try:
        return f"{type(exc).__name__}: {exc}"
    except BaseException:
        return type(exc).__name__


def is_users_interrupt(exc: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C: Python tells the main thread alone. Elsewhere it is a plugin that raised it."""
    return isinstance(exc, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def reraise_users_interrupt(exc: BaseException) -> None:
    """For handlers that contain all that a plugin raises: a panic in Rust, or SystemExit, is no `Exception`."""
    if is_users_interrupt(exc):
        raise exc
