"""The bounds, and the file that they are read from."""

import functools
import json
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from structout.compile.risk.measures import Measure


@attrs.frozen
class Bound:
    """Of one measure: the most that is plain, and the most that is compiled at all."""

    plain: int
    hard: int


Bounds: TypeAlias = Mapping[Measure, Bound]
"""A bound for each measure."""


@functools.cache
def _file() -> Mapping[str, Any]:
    text = (resources.files("structout.compile") / "bounds.json").read_text(encoding="utf-8")
    measured: Mapping[str, Any] = json.loads(text)["measures"]
    return measured


@functools.cache
def bounds_for(backend: str) -> Bounds:
    """The bounds for compiling with a backend. Where nothing was measured of it, nothing is plain."""
    return MappingProxyType(
        {measure: Bound(_file()[measure]["plain"].get(backend, 0), _file()[measure]["hard"]) for measure in Measure}
    )


def _default() -> Bounds:
    first = bounds_for("llguidance")
    second = bounds_for("xgrammar")
    grammars = {measure: second[measure] for measure in Measure if measure.startswith("grammar.")}
    stricter = {measure: min(first[measure], bound, key=lambda each: each.plain) for measure, bound in grammars.items()}
    return MappingProxyType({**first, **stricter})


BOUNDS: Final[Bounds] = _default()
"""Where no backend is named: the bounds of llguidance, which is tried first. GBNF it does not take, so that of grammars
the stricter bounds of llguidance and of xgrammar hold."""
