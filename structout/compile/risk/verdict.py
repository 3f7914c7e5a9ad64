"""From a spec to its class."""

import enum
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import attrs

from structout.compile.risk.bounds import BOUNDS, Bounds
from structout.compile.risk.grammars import add_grammar
from structout.compile.risk.measures import DESCRIPTIONS, Measure, Measures, text_bytes
from structout.compile.risk.patterns import add_regex
from structout.compile.risk.texts import add_embedded, add_json, is_small
from structout.errors import ErrorKind, GrammarError
from structout.spec import Choice, Ebnf, GrammarSpec, JsonObject, JsonSchema, Lark, Regex, StructuralTag


class RiskClass(enum.Enum):
    """PLAIN: compiled in this process at once. RISKY: in a process that can be killed. OVER: refused."""

    PLAIN = "plain"
    RISKY = "risky"
    OVER = "over"


@attrs.frozen
class Risk:
    """A spec's class, and what decided it.

    Attributes:
        measure: the measure that is over its bound by the largest factor; None if the spec is PLAIN.
        value: what was measured, or an upper bound of it.
        bound: the most that the next better class allows.
    """

    risk_class: RiskClass
    measure: Measure | None = None
    value: int = 0
    bound: int = 0

    def error(self) -> GrammarError:
        """The refusal of a spec that is OVER. ValueError for any other."""
        if self.measure is None or self.risk_class is not RiskClass.OVER:
            raise ValueError(f"a spec that is {self.risk_class.value} is not refused")
        what, hint = DESCRIPTIONS[self.measure]
        message = f"The spec is too complex: {what} is {self.value:,}, and the limit is {self.bound:,}."
        return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, keyword=_KEYWORDS.get(self.measure), hint=hint)


PLAIN: Final = Risk(RiskClass.PLAIN)
_KEYWORDS: Final = {Measure.REFERENCES: "$ref", Measure.ENUM: "enum", Measure.DIVISOR: "multipleOf"}


def risk_of(spec: GrammarSpec, bounds: Bounds = BOUNDS) -> Risk:
    """The class of a spec, in time linear in its text. Never raises.

    Text that is no JSON where JSON is due is measured as text: to refuse it is another part's business.

    Args:
        spec: as it came from a stranger.
        bounds: of the backend that is to compile it: `structout.compile.risk.bounds_for`.
    """
    return PLAIN if is_plain_by_its_look(spec, bounds) else judge(measures_of(spec, bounds), bounds)


def is_plain_by_its_look(spec: GrammarSpec, bounds: Bounds) -> bool:
    """Whether a spec is PLAIN whatever it says: most small schemas are, and need not be measured."""
    return isinstance(spec, JsonSchema) and not spec.registry and is_small(spec.text, bounds)


def measures_of(spec: GrammarSpec, bounds: Bounds) -> Measures:
    """Everything that is measured of a spec; what is over a hard bound may hide further measures. Never raises.

    Of ``bounds`` only the hard ones matter, which are the same for all backends.
    """
    measures: Measures = defaultdict(int)
    match spec:
        case JsonSchema(text=text, registry=registry):
            add_json(measures, [text, *(each for _, each in registry)], bounds)
        case StructuralTag(text=text):
            add_json(measures, [text], bounds)
        case Regex(pattern=pattern):
            add_regex(measures, pattern, bounds)
        case Ebnf(text=text):
            add_grammar(measures, text, bounds)
        case Lark(text=text):
            add_grammar(measures, text, bounds, lark=True)
            add_embedded(measures, text, bounds)
        case Choice(options=options):
            measures[Measure.OPTIONS] = len(options)
            measures[Measure.CHOICE_BYTES] = sum(map(text_bytes, options))
        case JsonObject():
            pass
    return measures


def judge(measures: Measures, bounds: Bounds) -> Risk:
    """The class that measures come to."""

    def over(bound: Callable[[Measure], int]) -> Measure | None:
        found = [measure for measure, value in measures.items() if value > bound(measure)]
        return max(found, key=lambda measure: measures[measure] / max(1, bound(measure)), default=None)

    if measure := over(lambda measure: bounds[measure].hard):
        return Risk(RiskClass.OVER, measure, measures[measure], bounds[measure].hard)
    if measure := over(lambda measure: bounds[measure].plain):
        return Risk(RiskClass.RISKY, measure, measures[measure], bounds[measure].plain)
    return PLAIN
