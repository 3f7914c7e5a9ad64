"""``structout bench promotion``: what promotion takes of a step with very many blocked requests, beside a few.

Two promoters hold requests that wait for a grammar each. In every step as many grammars become ready in one as in the
other, of requests anywhere among those that are blocked; new ones take their places. Timed is what an engine does of it
in its step: `Promoter.decided`, and `Promoter.settle` for each.
"""

import random
from collections.abc import Callable
from typing import Final

from engine_adapter.promotion import Promoter
from structout.cli.bench import machine, report, timing
from structout.cli.bench.report import BenchError
from structout.cli.bench.timing import Figure
from structout.compile import Pending
from structout.result import Ok

FEW: Final = 100
READY: Final = 16
UNIT: Final = "microseconds of process time a step"
_STEPS: Final = 50  # in a round


def run(many: int, options: report.Options) -> int:
    """Prints the figures. Returns the exit code."""
    try:
        report.check_plot(options.plot)
        figures = measure(many, seconds=20.0 if options.quick else 120.0)
    except BenchError as exc:
        return report.failed(exc, options)
    report.show("promotion", machine.describe("1 thread used"), figures, options, unit=UNIT)
    return 0


def measure(many: int, *, seconds: float, steps: int = _STEPS) -> list[Figure]:
    """Compares ``many`` blocked requests with `FEW`. Raises BenchError if they are fewer than become ready."""
    if many < READY:
        raise BenchError(f"{READY} requests become ready in a step, and {many} are blocked", f"block {READY} at least")
    ways = {timing.OWN: Blocked(many).prepare, f"{FEW:,} blocked": Blocked(FEW).prepare}
    return timing.compare({"blocked": many, "ready": READY}, ways, calls=steps, rows=1, seconds=seconds)


class Blocked:
    """A promoter with always the same number of requests."""

    def __init__(self, blocked: int) -> None:
        self._promoter: Promoter[int] = Promoter()
        self._pending: dict[int, Pending[int]] = {}
        self._keys: list[int] = []
        self._random = random.Random(0)
        self._next = 0
        self._left: list[int] = []  # places whose requests are gone
        for _ in range(blocked):
            self._keys.append(self._block())

    def _block(self) -> int:
        key, self._next = self._next, self._next + 1
        self._pending[key] = Pending()
        self._promoter.block(key, [self._pending[key]])
        return key

    def prepare(self, _number: int) -> Callable[[], None]:
        """Has new requests take the places of those that are gone, and some grammars become ready. Returns the step."""
        for place in self._left:
            self._keys[place] = self._block()
        self._left = self._random.sample(range(len(self._keys)), READY)
        for place in self._left:
            self._pending.pop(self._keys[place]).settle(Ok(place))
        return self._step

    def _step(self) -> None:
        decisions = self._promoter.decided()
        for decision in decisions:
            self._promoter.settle(decision.key)
        if len(decisions) != READY:
            raise RuntimeError(f"{len(decisions)} of {READY} requests were decided")
