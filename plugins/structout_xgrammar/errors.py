"""xgrammar's error messages, turned into errors for the caller.

They come as RuntimeError with a text such as ``[12:00:00] /project/cpp/x.cc:1: Check failed: (ok) is false: ...``; all
of it goes to the log only.
"""

import re
from typing import Final

from structout.errors import ErrorKind, GrammarError

BACKEND: Final = "xgrammar"

_ORIGIN: Final = re.compile(r"\[[0-9:]+\] \S+:[0-9]+: (?:Check failed: \(.*?\) is false: ?)?")
_PREFIX: Final = re.compile(r"^(?:Invalid structural tag error|Invalid JSON error): ")
_POSITION: Final = re.compile(r"(?:EBNF (?:lexer|parser)|Lark) error at line ([0-9]+), column ([0-9]+): (.*)")
_LIMIT: Final = re.compile(r"exceed|too large|state explosion", re.IGNORECASE)
_UNSUPPORTED: Final = re.compile(r"not supported|unsupported", re.IGNORECASE)
_EMPTY: Final = re.compile(r"cannot accept any value|greater than|[Ii]nvalid range|contains no|less than the number")


def grammar_error(error: RuntimeError, text: str) -> GrammarError:
    """The error for a grammar or a structural tag with this text."""
    message = _message(error)
    if _LIMIT.search(message):
        return _too_complex(error)
    position = _POSITION.search(message)
    what = position[3] if position else message
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED if _UNSUPPORTED.search(what) else ErrorKind.INVALID_SPEC,
        message=f"This does not compile: {what}.",
        offset=_offset(text, int(position[1]), int(position[2])) if position else None,
        backend=BACKEND,
        detail=str(error),
    )


def schema_error(error: RuntimeError, *, is_simple: bool) -> GrammarError:
    """The error for a valid JSON Schema. One that is not simple may be satisfiable although a part of it is not."""
    message = _message(error)
    if is_simple and _EMPTY.search(message):
        return GrammarError(
            kind=ErrorKind.UNSATISFIABLE,
            message=f"No value satisfies this schema, it is unsatisfiable: {message}.",
            pointer="",
            backend=BACKEND,
            detail=str(error),
        )
    if _LIMIT.search(message):
        return _too_complex(error)
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED,
        message="xgrammar does not compile this schema, or a part of it that no value satisfies.",
        hint="use another backend",
        backend=BACKEND,
        detail=str(error),
    )


def _too_complex(error: RuntimeError) -> GrammarError:
    message = "This is over one of xgrammar's limits on automata, repetitions or nesting."
    return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, backend=BACKEND, detail=str(error))


def _message(error: RuntimeError) -> str:
    """What the error says, in its first line, without where it was thrown."""
    text = _ORIGIN.sub("", str(error)).strip()
    return _PREFIX.sub("", text).partition("\n")[0].rstrip(". ")


def _offset(text: str, line: int, column: int) -> int:
    """The character offset of a line and a column, both from 1."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return min(len(text), starts[min(line, len(starts)) - 1] + column - 1)
