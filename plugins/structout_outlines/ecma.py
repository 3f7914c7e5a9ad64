"""Patterns of JSON Schema that can stand between the quotes of a JSON string.

outlines_core puts a pattern there as it is: a dot would match the closing quote, a class a bare backslash, ``a|b``
would take one quote each, and ``\\d`` and ``\\w`` mean Unicode's digits and letters. What is left is what most patterns
are made of: plain characters and classes, groups, alternatives, repetitions.
"""

import re
from typing import Final

import attrs

_TOKEN: Final = re.compile(
    r"""
    (?P<class>\[(?!\^)(?:[^]\\[&~|"]|\\[-dw.*+?()[\]{}|^$/])+\])
  | (?P<escape>\\[-dw.*+?()[\]{}|^$/])
  | (?P<group>\((?:\?:)?(?!\?)|\))
  | (?P<alternative>\|)
  | (?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\})\??)
  | (?P<char>[A-Za-z0-9\ _!#%&',/:;<=>@`~-])
    """,
    re.VERBOSE,
)
_UNSAFE: Final = [chr(code) for code in (*range(0x20), 0x22, 0x5C, *range(0x7F, 0xA0))]


@attrs.frozen
class StringPattern:
    """A pattern as outlines_core can take it.

    Attributes:
        text: matches from the first to the last character of a string.
        is_exact: whether the original does; else it asks only for a part of the string that matches.
    """

    text: str
    is_exact: bool


def string_pattern(pattern: str) -> StringPattern | None:
    """The pattern for strings that match as a whole; None if it has anything but what is known to be safe."""
    core = pattern.removeprefix("^")
    from_start = core != pattern
    to_end = core.endswith("$") and not core.endswith("\\$")
    core = core[:-1] if to_end else core
    parts: list[str] = []
    depth, outer_alternative, offset = 0, False, 0
    while match := _TOKEN.match(core, offset):
        offset = match.end()
        part = _portable(match)
        if part is None:
            return None
        depth += {"(": 1, "(?:": 1, ")": -1}.get(part, 0)
        if depth < 0:
            return None
        outer_alternative |= part == "|" and depth == 0
        parts.append(part)
    if offset < len(core) or depth:
        return None
    return StringPattern(f"^(?:{''.join(parts)})$", from_start and to_end and not outer_alternative)


def _portable(match: re.Match[str]) -> str | None:
    """One token in Rust's syntax, if it can match no character that a JSON string has to escape."""
    text = match[0]
    match match.lastgroup:
        case "escape":
            return {r"\d": "[0-9]", r"\w": "[A-Za-z0-9_]"}.get(text, text)
        case "class":
            return _class(text)
        case _:
            return text


def _class(text: str) -> str | None:
    if not text.isascii() or re.search(r"--|-\\[dw]", text):
        return None
    text = text.replace(r"\d", "0-9").replace(r"\w", "_A-Za-z0-9")
    return text if _is_safe(text) else None


def _is_safe(characters: str) -> bool:
    """Whether a class leaves all unsafe characters out. A class of these tokens means the same to Python."""
    try:
        pattern = re.compile(characters)
    except re.error:
        return False
    return not any(map(pattern.fullmatch, _UNSAFE))
