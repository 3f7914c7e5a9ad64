"""RFC 6901 JSON pointers as text: ``""`` is the whole document, ``"/a~1b/0"`` the first item of its member ``a/b``."""

import re
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any

from structout.result import Err, Ok, Result

_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")


def join(pointer: str, *tokens: str | int) -> str:
    """``pointer`` with reference tokens added at its end. Tokens are given as they are, and escaped here."""
    return pointer + "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def split(pointer: str) -> Result[tuple[str, ...], str]:
    """The reference tokens of a pointer, unescaped, or what is wrong with its syntax."""
    if not pointer:
        return Ok(())
    if not pointer.startswith("/"):
        return Err(f"the JSON pointer {pointer!r} does not start with '/'")
    if _BAD_ESCAPE.search(pointer):
        return Err(f"the JSON pointer {pointer!r} has a '~' that is not part of '~0' or '~1'")
    return Ok(tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")))


def step(value: Any, token: str) -> Result[tuple[str | int, Any], str]:
    """One reference token applied to a JSON value: the key or index that it names, and what is there."""
    if isinstance(value, dict) and token in value:
        return Ok((token, value[token]))
    if isinstance(value, list) and _INDEX.fullmatch(token) and len(token) < 20 and int(token) < len(value):
        return Ok((int(token), value[int(token)]))
    return Err(f"there is no {token!r}")


def resolve(document: Any, pointer: str) -> Result[Any, str]:
    """The value that ``pointer`` names in a JSON document, or why it names none."""
    match split(pointer):
        case Err() as error:
            return error
        case Ok(tokens):
            value = document
    for token in tokens:
        match step(value, token):
            case Err(reason):
                return Err(f"{reason} on the way of the JSON pointer {pointer!r}")
            case Ok((_, value)):
                pass
    return Ok(value)


def from_fragment(fragment: str) -> Result[str, str]:
    """The text of a URI fragment (without its ``#``): percent-decoded UTF-8, as RFC 6901 section 6 says."""
    try:
        return Ok(urllib.parse.unquote(fragment, errors="strict"))
    except UnicodeDecodeError:
        return Err(f"the fragment {fragment!r} is not percent-encoded UTF-8")


def with_empty_names(document: Any, path: Sequence[str | int]) -> tuple[str | int, ...]:
    """A path into ``document`` from which empty member names were left out, as jsonschema-rs leaves them out.

    Where several paths could be meant, the one with fewest of them; what leads nowhere at all stays as it is.
    """
    return next(_completions(document, tuple(path)), tuple(path))


def _completions(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if not path:
        yield ()
        return
    match step(value, str(path[0])):
        case Ok((_, inner)):
            yield from ((path[0], *rest) for rest in _completions(inner, path[1:]))
    if isinstance(value, dict) and "" in value and path[0] != "":
        yield from (("", *rest) for rest in _completions(value[""], path))
