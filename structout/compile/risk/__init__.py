"""Whether a spec is compiled in this process at once, in a process that can be killed, or not at all.

Static measures decide (`Measure`), against bounds that were measured (`bounds.json`, made by ``benchmarks/bounds.py``):
at most ``plain`` of everything is PLAIN, more than ``hard`` of anything is OVER, the rest is RISKY. The measures are
upper bounds that one scan of the text or one walk over its JSON finds, in linear time and without recursion.
"""

from structout.compile.risk.bounds import BOUNDS, Bound, Bounds, bounds_for
from structout.compile.risk.measures import Measure, Measures
from structout.compile.risk.verdict import (
    PLAIN,
    Risk,
    RiskClass,
    is_plain_by_its_look,
    judge,
    measures_of,
    risk_of,
)

__all__ = [
    "BOUNDS",
    "PLAIN",
    "Bound",
    "Bounds",
    "Measure",
    "Measures",
    "Risk",
    "RiskClass",
    "bounds_for",
    "is_plain_by_its_look",
    "judge",
    "measures_of",
    "risk_of",
]
