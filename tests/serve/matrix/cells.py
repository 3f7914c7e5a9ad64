"""What is tried: every endpoint in every mode with every trouble, and the ways in which a trouble comes about."""

import enum
import itertools
from collections.abc import Iterator
from typing import Final

import attrs

from structout.errors import CONSEQUENCES, Consequence, ErrorKind, Fault


class Endpoint(enum.StrEnum):
    """Who is asked."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    INFERENCE = "vllm.Inference"
    VLLM_ENGINE = "VllmEngine"


class Trouble(enum.StrEnum):
    """What goes wrong."""

    BAD_REQUEST = "bad request"
    COMPILE_FAILURE = "compile failure"
    COMPILE_TIME_OUT = "compile time-out"
    WORKER_DEATH = "worker death"
    REJECTED_TOKEN = "rejected token"
    EMPTY_ROW = "empty mask row"
    MODEL_BEFORE = "model error before the first token"
    MODEL_AFTER = "model error after the first token"
    CANCELLATION = "cancellation"
    OVERLOAD = "overload"


@attrs.frozen
class Cell:
    """One endpoint in one mode, and what goes wrong with a request to it."""

    endpoint: Endpoint
    is_stream: bool
    n: int
    trouble: Trouble


@attrs.frozen
class Way:
    """One way in which a trouble comes about.

    Attributes:
        deed: what the backend, its worker, the model or the client does: see `faulty` and `model`.
        kind: of the error that follows; None for a client that has left and hears nothing.
        fault: the party to it, if not the kind's usual one.
        is_late: whether tokens were delivered before.
        hits_one: whether it hits one of the samples only.
    """

    deed: str
    kind: ErrorKind | None
    fault: Fault | None = None
    is_late: bool = attrs.field(default=False, kw_only=True)
    hits_one: bool = attrs.field(default=False, kw_only=True)

    @property
    def party(self) -> Fault:
        assert self.kind is not None
        return self.fault or next(iter(CONSEQUENCES[self.kind]))

    @property
    def consequence(self) -> Consequence:
        assert self.kind is not None
        return CONSEQUENCES[self.kind][self.party]


def _each(deed: str, kind: ErrorKind, *, when: tuple[bool, ...]) -> tuple[Way, ...]:
    """For all samples and for one of them, at each of these times: late or not."""
    hits = itertools.product(when, (False, True))
    return tuple(Way(deed, kind, is_late=is_late, hits_one=hits_one) for is_late, hits_one in hits)


WAYS: Final[dict[Trouble, tuple[Way, ...]]] = {
    Trouble.BAD_REQUEST: (
        Way("no option", ErrorKind.INVALID_SPEC),
        Way("top_p", ErrorKind.INVALID_SPEC),
    ),
    Trouble.COMPILE_FAILURE: (
        Way("decline", ErrorKind.UNSUPPORTED),
        Way("raise", ErrorKind.BACKEND_FAILURE),
    ),
    Trouble.COMPILE_TIME_OUT: (
        Way("hang", ErrorKind.TIMED_OUT, Fault.SERVICE),
        Way("spin", ErrorKind.TIMED_OUT, Fault.CALLER),
    ),
    Trouble.WORKER_DEATH: (Way("segfault", ErrorKind.BACKEND_FAILURE),),
    Trouble.REJECTED_TOKEN: _each("reject", ErrorKind.REJECTED_TOKEN, when=(False, True)),
    Trouble.EMPTY_ROW: _each("empty", ErrorKind.DEAD_END, when=(False, True)),
    Trouble.MODEL_BEFORE: _each("fail", ErrorKind.ENGINE_FAILURE, when=(False,)),
    Trouble.MODEL_AFTER: _each("fail", ErrorKind.ENGINE_FAILURE, when=(True,)),
    Trouble.CANCELLATION: (Way("leave while compiling", None), Way("leave while generating", None, is_late=True)),
    Trouble.OVERLOAD: (
        Way("crowd the compile service", ErrorKind.OVERLOADED),
        Way("crowd the engine", ErrorKind.OVERLOADED),
    ),
}

CELLS: Final = tuple(itertools.starmap(Cell, itertools.product(Endpoint, (False, True), (1, 3), Trouble)))

IMPOSSIBLE: Final[dict[Cell, str]] = {
    Cell(Endpoint.INFERENCE, False, 3, trouble): "Generate has room for one answer: n = 3 is itself a bad request"
    for trouble in Trouble
    if trouble is not Trouble.BAD_REQUEST
}
"""The cells that cannot be tried, and why."""


@attrs.frozen
class Case:
    """A cell, and one way to come to it."""

    cell: Cell
    way: Way

    def __str__(self) -> str:
        cell, way = self.cell, self.way
        mode = "stream" if cell.is_stream else "whole"
        when = ("early", "late")[way.is_late]
        return f"{cell.endpoint}-{mode}-n{cell.n}-{cell.trouble}-{way.deed}-{when}{'-one' * way.hits_one}"


def cases() -> Iterator[Case]:
    """All that is tried."""
    for cell in CELLS:
        for way in WAYS[cell.trouble]:
            fits = not way.hits_one if cell.n == 1 else way.deed != "spin"  # a second of processor time each
            if fits and cell not in IMPOSSIBLE:
                yield Case(cell, way)
