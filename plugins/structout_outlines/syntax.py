"""The syntax of Rust's ``regex``, as far as it has to be read before the library reads it.

Of nearly every pattern that it cannot use outlines_core only says "error building NFA". So what is valid elsewhere but
has no automaton (look-around, back references, word boundaries) is found here, with its offset; so are brackets that do
not match, which would pair with those that are put around the pattern; and the pattern's size is measured, because the
library has no limit of its own.
"""

import re
from collections.abc import Iterator
from typing import Final

import attrs

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result

_TOKEN: Final = re.compile(
    r"""
    (?P<look>\(\?<?[=!])
  | (?P<flags>\(\?[a-zA-Z-]*(?:x[a-zA-Z-]*)[:)])
  | (?P<switch>\(\?[a-zA-Z-]+\))
  | (?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:))?)
  | (?P<close>\))
  | (?P<alternative>\|)
  | (?P<repeat>[*+?]|\{\s*\d*\s*(?:,\s*\d*\s*)?\})
  | (?P<start>\^|\\A)
  | (?P<end>\$|\\z)
  | (?P<boundary>\\[bB](?:\{[^}]*\})?|\\[<>])
  | (?P<reference>\\[1-9]|\\k[<{])
  | (?P<escape>\\(?:[pPxuU]\{[^}]*\}|[pP].|x..|u.{4}|U.{8}|.))
  | (?P<class>\[)
  | (?P<char>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CLASS_TOKEN: Final = re.compile(
    r"\[:\^?\w+:\]|(?:\\(?:[xuU]\{[^}]*\}|.)|[^\\\[\]-])-\[|\[\^?\]?|\]|\\(?:[pPxuU]\{[^}]*\}|[pP].|.)|.", re.DOTALL
)

# How many states one occurrence of such a class has, as measured: UTF-8 makes a tree of it.
_WORD_STATES: Final = 320
_DIGIT_STATES: Final = 100
_WIDE_STATES: Final = 12

_FEATURES: Final = {
    "look": "look-around",
    "flags": "the flag x",
    "start": "an anchor within the pattern",
    "end": "an anchor within the pattern",
    "boundary": "a word boundary",
    "reference": "a back reference",
}


@attrs.frozen
class Token:
    """One piece of a pattern: ``kind`` is the name of its group in the token's syntax."""

    kind: str
    text: str
    offset: int


@attrs.frozen
class Pattern:
    """A pattern that can stand inside of a group.

    Attributes:
        text: without the anchors at the ends of its alternatives, which a whole match makes redundant; and without
            U+0000 in what means nearly any character, where no flag may have changed what that is.
        size: about how many states it has, if determinizing it does not multiply them.
    """

    text: str
    size: int


def read(pattern: str) -> Result[Pattern, GrammarError]:
    """Checks, unanchors and measures a pattern. The library may still refuse what this lets through."""
    tokens = _unanchored(list(_tokens(pattern)))
    depth = 0
    for token in tokens:
        if token.kind in _FEATURES:
            return Err(_unsupported(token))
        depth += (token.kind == "open") - (token.kind == "close")
        if depth < 0:
            return Err(invalid("a ')' closes nothing", token.offset))
        if token.kind == "class" and not token.text.endswith("]"):
            return Err(invalid("a '[' is not closed", token.offset))
    if depth:
        return Err(invalid("a '(' is not closed", len(pattern)))
    sets_flags = any(map(_sets_flags, tokens))
    texts = (token.text if sets_flags else _without_marker(token) for token in tokens)
    return Ok(Pattern("".join(texts), _size(tokens)))


def invalid(reason: str, offset: int | None = None) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.INVALID_SPEC,
        message=f"This is not a regular expression: {reason}.",
        offset=offset,
        hint="the syntax is that of Rust's regex crate",
    )


def _unsupported(token: Token) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED,
        message=f"{token.text!r} is {_FEATURES[token.kind]}, which the automata of outlines do not have.",
        offset=token.offset,
    )


def _tokens(pattern: str) -> Iterator[Token]:
    offset = 0
    while match := _TOKEN.match(pattern, offset):
        kind, text = match.lastgroup or "char", match[0]
        if kind == "class":
            text = pattern[offset : _class_end(pattern, offset)]
        yield Token(kind, text, offset)
        offset += len(text)


def _class_end(pattern: str, start: int) -> int:
    """Offset behind the class that begins at ``start``; classes nest."""
    depth = 0
    for match in _CLASS_TOKEN.finditer(pattern, start):
        depth += match[0].startswith("[") and not match[0].startswith("[:")
        depth -= match[0] == "]"
        if not depth:
            return match.end()
    return len(pattern)


def _unanchored(tokens: list[Token]) -> list[Token]:
    """Without ``^`` at the start and ``$`` at the end of the alternatives at the top: both always hold there."""
    kept: list[Token] = []
    depth = 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1].kind if index else "alternative"
        after = tokens[index + 1].kind if index + 1 < len(tokens) else "alternative"
        outer = "alternative" if depth == 0 else ""
        depth += (token.kind == "open") - (token.kind == "close")
        redundant = (token.kind == "start" and before == outer and after != "repeat") or (
            token.kind == "end" and after == outer
        )
        if not redundant:
            kept.append(token)
    return kept


def _sets_flags(token: Token) -> bool:
    """Whether a dot may mean something else behind it."""
    return token.kind == "switch" or (token.kind == "open" and token.text.endswith(":") and token.text != "(?:")


def _without_marker(token: Token) -> str:
    """The token's text without U+0000, which no text has here. Were it left in, the automaton would go on behind every
    end as if that had been a character: 24,158 states instead of 961 for ``(.{1,30}){1,4}``."""
    if token.text == "." and token.kind == "char":
        return r"[^\n\x00]"
    if (token.kind == "class" and token.text.startswith("[^")) or re.fullmatch(r"\\[DSW]|\\P.*", token.text):
        return rf"[{token.text}&&[^\x00]]"
    return token.text


def _size(tokens: list[Token]) -> int:
    """Sum of the atoms, each times its repetition. Brackets match."""
    totals, last = [0], 0
    for token in tokens:
        match token.kind:
            case "open":
                totals[-1] += last
                totals.append(0)
                last = 0
            case "close":
                last += totals.pop()
            case "repeat":
                last *= _repetitions(token.text)
            case _:
                totals[-1] += last
                last = _atom_size(token)
    return totals[0] + last


def _repetitions(text: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return max([1, *numbers])


def _atom_size(token: Token) -> int:
    match token.kind:
        case "char":
            return _WIDE_STATES if token.text == "." else len(token.text.encode("utf-8", "surrogatepass"))
        case "class" | "escape":
            if re.search(r"\\[wWpP]", token.text):
                return _WORD_STATES
            if re.search(r"\\[dD]", token.text):
                return _DIGIT_STATES
            is_wide = token.text.startswith("[^") or not token.text.isascii() or re.search(r"\\[xuUsS]", token.text)
            return _WIDE_STATES if is_wide else 1
        case _:
            return 0
