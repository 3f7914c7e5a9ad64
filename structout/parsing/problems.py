"""The errors of parsing, and the words that they share. Nothing a client sent appears in a message unescaped."""

import difflib
import functools
import json
from collections.abc import Sequence

from structout.errors import ErrorKind, GrammarError
from structout.result import Err

_NAMES_OF_TYPES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_LONGEST_ECHO = 60
_LONGEST_KEY = 256
_MOST_NAMES = 20
# Comparing takes time in the product of the lengths, and functions have the names that a client gives them.
_LONGEST_NAME = 64
_MOST_CANDIDATES = 256


def invalid(
    message: str,
    *,
    pointer: str | None = None,
    offset: int | None = None,
    keyword: str | None = None,
    hint: str | None = None,
) -> Err[GrammarError]:
    """Malformed, empty or contradictory."""
    return Err(
        GrammarError(
            kind=ErrorKind.INVALID_SPEC,
            message=message,
            pointer=pointer,
            offset=offset,
            keyword=None if keyword is None else _in_utf8(_shortened(keyword, _LONGEST_KEY)),
            hint=hint,
        )
    )


def unsupported(message: str, *, pointer: str, keyword: str, hint: str) -> Err[GrammarError]:
    """Well-formed and understood, but nothing here does it."""
    return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, pointer=pointer, keyword=keyword, hint=hint))


def too_complex(found: str, limit: str, bound: int, *, pointer: str | None) -> Err[GrammarError]:
    """``found`` is a clause that says what is too large and how large it is; ``limit`` is a field of `SpecLimits`."""
    return Err(
        GrammarError(
            kind=ErrorKind.TOO_COMPLEX, message=f"{found}; at most {bound:,} are allowed ({limit})", pointer=pointer
        )
    )


def describe(value: object) -> str:
    """What kind of JSON value this is, with its article; a Python type's name for what JSON does not have."""
    return _NAMES_OF_TYPES.get(type(value)) or f"a Python {type(value).__name__}"


def quote(text: str) -> str:
    """A client's text for a message: in quotes, in ASCII, shortened."""
    return json.dumps(_shortened(text, _LONGEST_ECHO))


def quote_all(names: Sequence[str], conjunction: str = "or") -> str:
    """Names as one list for a message, the first ones of a long one."""
    if len(names) > _MOST_NAMES:
        return ", ".join(map(quote, names[:_MOST_NAMES])) + f" {conjunction} {len(names) - _MOST_NAMES:,} more"
    *first, last = map(quote, names)
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def child(pointer: str, *keys: str | int) -> str:
    """The RFC 6901 pointer to what lies below ``pointer``; lone surrogates are written as escapes, and a name that no
    one would type is shortened, so that an error does not send a client's megabyte back."""
    tokens = (_in_utf8(_shortened(str(key), _LONGEST_KEY)) for key in keys)
    return pointer + "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _in_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@functools.lru_cache(maxsize=1024)
def closest(name: str, known: tuple[str, ...], cutoff: float = 0.6) -> str | None:
    """Which of the ``known`` names was probably meant: misspelt, in camel case or with hyphens. Cached: the same field
    names come with every request."""
    if len(name) > _LONGEST_NAME:
        return None
    candidates = [other for other in known[:_MOST_CANDIDATES] if len(other) <= _LONGEST_NAME]
    matches = difflib.get_close_matches(name.lower().replace("-", "_"), candidates, n=1, cutoff=cutoff)
    return matches[0] if matches else None


def suggestion(name: str, known: tuple[str, ...]) -> str:
    """The end of a sentence about a name that is not one of the ``known`` ones: what was meant, if that can be seen."""
    meant = closest(name, known)
    return f"; did you mean {quote(meant)}?" if meant else ""
