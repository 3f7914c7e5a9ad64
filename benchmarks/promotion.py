"""Does a step's promotion depend on how many requests are blocked? ``python -m benchmarks.promotion --json``

Two promoters hold requests that wait for a grammar each, a few and very many. In every step as many grammars become
ready in one as in the other, of requests anywhere among those that are blocked; new ones take their places. Timed is
what an engine does of it in its step: `Promoter.decided`, and `Promoter.settle` for each; in process time, rounds of
both by turns, the best of them.
"""

import json
import random
import sys
import time
from typing import Annotated

import attrs
import typer

from engine_adapter.promotion import Promoter
from structout import Ok
from structout.compile import Pending

SEED = 7


@attrs.frozen
class Cost:
    """What a step's promotion takes, in microseconds: of all rounds, the best one's mean."""

    few: int
    many: int
    ready: int
    few_us: float
    many_us: float

    @property
    def ratio(self) -> float:
        return self.many_us / self.few_us

    def line(self) -> str:
        return (
            f"{self.ready} ready in a step: {self.few_us:.1f} us with {self.few:,} blocked, "
            f"{self.many_us:.1f} us with {self.many:,}; ratio {self.ratio:.2f}"
        )


class Blocked:
    """A promoter with always the same number of requests."""

    def __init__(self, blocked: int, ready: int) -> None:
        self._promoter: Promoter[int] = Promoter()
        self._pending: dict[int, Pending[int]] = {}
        self._keys: list[int] = []
        self._random = random.Random(SEED)
        self._ready = ready
        self._next = 0
        for _ in range(blocked):
            self._keys.append(self._block())

    def _block(self) -> int:
        key, self._next = self._next, self._next + 1
        self._pending[key] = Pending()
        self._promoter.block(key, [self._pending[key]])
        return key

    def step_s(self) -> float:
        """Process time of one step, in seconds."""
        places = self._random.sample(range(len(self._keys)), self._ready)
        for place in places:
            self._pending.pop(self._keys[place]).settle(Ok(place))
        began = time.process_time()
        decisions = self._promoter.decided()
        for decision in decisions:
            self._promoter.settle(decision.key)
        seconds = time.process_time() - began
        if len(decisions) != self._ready:
            raise RuntimeError(f"{len(decisions)} of {self._ready} requests were decided")
        for place in places:
            self._keys[place] = self._block()
        return seconds


def measure(*, few: int, many: int, ready: int, rounds: int, steps: int) -> Cost:
    blocked = (Blocked(few, ready), Blocked(many, ready))
    best_us = [float("inf"), float("inf")]
    for _ in range(rounds):
        for index, each in enumerate(blocked):
            round_us = 1e6 * sum(each.step_s() for _ in range(steps)) / steps
            best_us[index] = min(best_us[index], round_us)
    return Cost(few, many, ready, *best_us)


def main(
    few: Annotated[int, typer.Option(min=1, help="Blocked requests of the one promoter.")] = 100,
    many: Annotated[int, typer.Option(min=1, help="Blocked requests of the other; a million take 1.5 GB.")] = 1_000_000,
    ready: Annotated[int, typer.Option(min=1, help="Requests that become ready in a step.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, of which the best counts.")] = 100,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a round.")] = 50,
    bound: Annotated[float, typer.Option(help="Exit with 1 if the ratio is above this.")] = 1.3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compares the cost of promotion with many blocked requests to that with a few."""
    if ready > min(few, many):
        raise typer.BadParameter("more requests cannot become ready than are blocked")
    cost = measure(few=few, many=many, ready=ready, rounds=rounds, steps=steps)
    print(json.dumps(attrs.asdict(cost) | {"ratio": cost.ratio, "bound": bound}) if as_json else cost.line())
    sys.exit(cost.ratio > bound)


if __name__ == "__main__":
    typer.run(main)
