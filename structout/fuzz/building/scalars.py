"""Numbers and strings within the bounds of all conjuncts."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from structout.fuzz import patterns, values
from structout.fuzz.building.demand import Demand
from structout.fuzz.choices import Choices
from structout.fuzz.formats import SAMPLES

_LARGE: Final = 10**15
"""Numbers beyond it are taken without their fraction, which a float would not hold."""
_STEPS: Final = (Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))


def number(choices: Choices, demand: Demand, *, whole: bool) -> int | float:
    """A number: a multiple of all ``multipleOf``, near a bound or near 0 more often than elsewhere."""
    divisors = _fractions(demand.values("multipleOf"))
    floors, above = _fractions(demand.values("minimum")), _fractions(demand.values("exclusiveMinimum"))
    ceilings, below = _fractions(demand.values("maximum")), _fractions(demand.values("exclusiveMaximum"))
    if not (divisors or floors or above or ceilings or below):
        return values.integer(choices) if whole else values.number(choices)
    step = _common_multiple([*divisors, *([Fraction(1)] if whole else [])] or [choices.pick(_STEPS)])
    first = max([*(math.ceil(bound / step) for bound in floors), *(bound // step + 1 for bound in above)], default=None)
    last = min(
        [*(bound // step for bound in ceilings), *(math.ceil(bound / step) - 1 for bound in below)], default=None
    )
    if first is not None and last is not None and first > last and not divisors:
        return _plain((max(floors + above) + min(ceilings + below)) / 2)
    return _plain(_multiple(choices, first, last) * step)


def _multiple(choices: Choices, first: int | None, last: int | None) -> int:
    """An integer from ``first`` to ``last``: at one of them, or up to ten away from one of them or from 0."""
    ends = [end for end in (first, last, 0) if end is not None]
    found = choices.pick(ends) + choices.pick((0, 0, 1, -1, 2, -2, choices.between(-10, 10)))
    if first is not None:
        found = max(found, first)
    return found if last is None else min(found, last)


def _fractions(numbers: Iterable[Any]) -> list[Fraction]:
    """Numbers of a schema as the decimals that they are written as; what no float can hold is left out."""
    return [Fraction(str(value)) for value in numbers if not isinstance(value, float) or math.isfinite(value)]


def _common_multiple(steps: Iterable[Fraction]) -> Fraction:
    """The least number that is a multiple of all of them."""
    found = [step for step in steps if step]
    return Fraction(math.lcm(*(step.numerator for step in found)), math.gcd(*(step.denominator for step in found)))


def _plain(exact: Fraction) -> int | float:
    return int(exact) if exact.denominator == 1 or abs(exact) > _LARGE else float(exact)


def string(choices: Choices, demand: Demand) -> str:
    """A string that one of the patterns or formats allows, and of the right length, as far as that is easy; now and
    then one of neither, which is what an annotation leaves open."""
    low, high = demand.lowest("minLength"), demand.highest("maxLength")
    expressions = demand.values("pattern")
    if expressions and not choices.one_in(16):
        return _matching(choices, choices.pick(expressions), low, high)
    formats = [samples for name in demand.values("format") if (samples := SAMPLES.get(name))]
    if formats and not choices.one_in(3):
        return _fitting([*choices.pick(formats)], choices, low, high)
    return values.string(choices, low, high)


def _matching(choices: Choices, pattern: str, low: int, high: int | None) -> str:
    return _fitting([patterns.sample(choices, pattern, more) for more in (2, 0, max(low, 1))], choices, low, high)


def _fitting(options: list[str], choices: Choices, low: int, high: int | None) -> str:
    """One of the strings of the right length, if there are any, else any."""
    fitting = [text for text in options if low <= len(text) and (high is None or len(text) <= high)]
    return choices.pick(fitting or options)
