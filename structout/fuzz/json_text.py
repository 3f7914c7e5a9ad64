"""Writes a JSON value as text, in one of the ways that JSON has."""

import json
import math
import re
from typing import Any, Final

import attrs

from structout.fuzz.choices import Choices
from structout.fuzz.values import Json

_SPACES: Final = ("", " ", "\n", "  ", "\t", "\r\n", " \n\t")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}

_WHOLE_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@attrs.frozen
class Style:
    """How to write.

    Attributes:
        comma: between members and items.
        colon: between a name and its value.
        white_space: where its choices come from, if white space is arbitrary.
        escapes: where its choices come from, if characters may be escaped without need.
        numbers: where its choices come from, if numbers may be written otherwise than in the shortest way.
    """

    comma: str = ", "
    colon: str = ": "
    white_space: Choices | None = None
    escapes: Choices | None = None
    numbers: Choices | None = None


SPACED: Final = Style()
COMPACT: Final = Style(",", ":")


def write(value: Json, style: Style = SPACED) -> str:
    """The text of a JSON value without surrogates, with no white space around it. Members keep their order."""
    match value:
        case dict():
            members = [
                f"{_string(name, style)}{_around(style.colon, style)}{write(value[name], style)}" for name in value
            ]
            return _enclosed("{", members, "}", style)
        case list():
            return _enclosed("[", [write(item, style) for item in value], "]", style)
        case str():
            return _string(value, style)
        case bool() | None:
            return json.dumps(value)
        case _:
            return _number(value, style)


def strip_strings(text: str) -> str:
    """JSON text with all its strings, names too, made empty."""
    return _WHOLE_STRING.sub('""', text)


def _enclosed(opening: str, parts: list[str], closing: str, style: Style) -> str:
    return opening + _space(style) + _around_all(parts, style) + (_space(style) if parts else "") + closing


def _around_all(parts: list[str], style: Style) -> str:
    text = ""
    for part in parts:
        text += part if not text else _around(style.comma, style) + part
    return text


def _around(separator: str, style: Style) -> str:
    return separator if style.white_space is None else _space(style) + separator.strip() + _space(style)


def _space(style: Style) -> str:
    return "" if style.white_space is None else style.white_space.pick(_SPACES)


def _string(text: str, style: Style) -> str:
    if style.escapes is None or style.escapes.one_in(3):
        return json.dumps(text, ensure_ascii=False)
    return '"' + "".join(_character(letter, style.escapes) for letter in text) + '"'


def _character(letter: str, choices: Choices) -> str:
    """The letter as it is, if that is allowed, or one of its escapes."""
    coded = json.dumps(letter) if letter > "\x7f" else f"\\u{ord(letter):04x}"
    options = [json.dumps(letter, ensure_ascii=False)[1:-1], coded.strip('"'), _SHORT.get(letter, coded.strip('"'))]
    found = choices.pick(options)
    return found.replace("\\u", "\\U").upper().replace("\\U", "\\u") if choices.one_in(2) and len(found) > 2 else found


def _number(value: Any, style: Style) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "1e999" if value > 0 else "-1e999"
    plain = repr(value)
    if style.numbers is None:
        return plain
    if "e" in plain:
        return style.numbers.pick((plain.upper(), plain.replace("+", "")))
    if "." in plain:
        return style.numbers.pick((plain + "0", plain + "e0", plain + "E+00"))
    return style.numbers.pick((plain + ".0", plain + "e0", plain + ".00E-0"))
