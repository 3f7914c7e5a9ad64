"""JSON text measured: as it stands as far as that suffices, else by a walk over what it says."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from structout.compile.risk.bounds import Bounds
from structout.compile.risk.measures import CAP, Measure, Measures, text_bytes
from structout.compile.risk.paths import add_paths
from structout.compile.risk.schemas import Walk

_READABLE_DEPTH: Final = 250
"""Nesting up to which `json.loads`, which recurses, is let at a text."""
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[][{}]")
_TELLING: Final = ("\\", 'ef"', 'Of"', "attern", '"max', '"min', '"unev')
"""Without these in it a schema has no references, combinations, patterns, counts, divisors or escaped keywords."""


def is_small(text: str, bounds: Bounds) -> bool:
    """Whether a schema is plain by the look of its text, whatever it says; in a hundredth of the time to read it."""
    size, objects = len(text), text.count("{")
    return (
        size <= min(bounds[Measure.SCHEMA_BYTES].plain, bounds[Measure.CONST_BYTES].plain)
        and text.isascii()
        and objects + text.count("[") <= min(bounds[Measure.SUBSCHEMAS].plain, bounds[Measure.SCHEMA_DEPTH].plain)
        and text.count(",") < bounds[Measure.ENUM].plain
        and (size <= bounds[Measure.OPEN_NAMES].plain or 'properties"' not in text)
        and not any(sign in text for sign in _TELLING)
    )


def add_json(measures: Measures, texts: Sequence[str], bounds: Bounds) -> None:
    """Adds schemas that belong together, or a structural tag. Never raises; beyond a hard bound it looks no further."""
    measures[Measure.SCHEMA_BYTES] += sum(map(text_bytes, texts))
    if measures[Measure.SCHEMA_BYTES] > bounds[Measure.SCHEMA_BYTES].hard:
        return
    if _is_readable(measures, texts, bounds):
        _walk(measures, map(_read, texts), bounds)


def add_embedded(measures: Measures, text: str, bounds: Bounds) -> None:
    """Adds the schemas that stand in a Lark grammar behind ``%json``. What is not readable there is never plain.

    A grammar of too many bytes, which `measures` has to know by now, is not looked into.
    """
    if measures[Measure.GRAMMAR_BYTES] > bounds[Measure.GRAMMAR_BYTES].hard:
        return
    chunks = text.split("%json")[1:]
    if _is_readable(measures, chunks, bounds):
        values = [_read_start(chunk.lstrip()) for chunk in chunks]
        _walk(measures, values, bounds)
        if None in values:
            measures[Measure.SCHEMA_DEPTH] = max(measures[Measure.SCHEMA_DEPTH], bounds[Measure.SCHEMA_DEPTH].hard)


def _walk(measures: Measures, documents: Iterable[Any], bounds: Bounds) -> None:
    walk = Walk(measures, bounds)
    for document in documents:
        walk.add(document)
    measures[Measure.SCHEMA_DEPTH] = max(measures[Measure.SCHEMA_DEPTH], walk.depth)
    if not walk.is_over:
        add_paths(measures, walk)


def _is_readable(measures: Measures, texts: Iterable[str], bounds: Bounds) -> bool:
    """Whether JSON is neither too much nor nested too deeply to be read; measures it where it is."""
    most, deepest = bounds[Measure.SUBSCHEMAS].hard, min(bounds[Measure.SCHEMA_DEPTH].hard, _READABLE_DEPTH)
    many = [text for text in texts if text.count("{") + text.count("[") > deepest]
    bare = [_STRING.sub("", text) for text in many]
    if (count := sum(text.count("{") + text.count("[") for text in bare)) > most:
        measures[Measure.SUBSCHEMAS] = count
        return False
    if any(_is_deeper(text, deepest) for text in bare):
        measures[Measure.SCHEMA_DEPTH] = bounds[Measure.SCHEMA_DEPTH].hard + 1
        return False
    return True


def _is_deeper(bare: str, limit: int) -> bool:
    """Whether brackets nest deeper than ``limit`` in JSON without its strings."""
    depth = 0
    for bracket in _BRACKET.finditer(bare):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > limit:
            return True
    return False


def _read(text: str) -> Any:
    """The value of a text; None if it is no JSON."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _read_start(text: str) -> Any:
    """The value that a text starts with; None if there is none."""
    try:
        return _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _int(digits: str) -> int:
    return int(digits) if len(digits) < 19 else CAP


_DECODER: Final = json.JSONDecoder(parse_int=_int)
