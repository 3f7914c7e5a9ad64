"""From ECMA 262's regular expressions, which JSON Schema means, to those of Rust's ``regex``, which llguidance reads.

The two differ in little, but there Rust's lets through what ECMA's does not: ``.`` matches line terminators other than
``\\n``, ``\\s`` is another set of characters, and ``&&``, ``--``, ``~~`` and ``[`` have a meaning inside of a class.
(``\\d`` and ``\\w`` llguidance itself reads as ECMA's.)
"""

import re
from typing import Final

_LINE_TERMINATORS: Final = r"\n\r\u2028\u2029"
_SPACES: Final = r"\t\n\x0b\x0c\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

_ANYWHERE: Final = {r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]", r"\<": "<", r"\>": ">"}
_OUTSIDE: Final = {".": f"[^{_LINE_TERMINATORS}]", "[]": r"[^\s\S]", "[^]": r"[\s\S]"} | _ANYWHERE
_INSIDE: Final = {"[": r"\[", "&": r"\&", "~": r"\~"} | _ANYWHERE

_OUTER_TOKEN: Final = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_INNER_TOKEN: Final = re.compile(r"\\.|--|.", re.DOTALL)
_FOREIGN_ESCAPE: Final = re.compile(r"\\(?:(?![bBcdDfknpPrsStuvwWx])[A-Za-z])?")
_NO_SHORT_ESCAPE: Final = (
    r"[\x00-\x07\x0b\x0e-\x1f\x7f]|\\(?:x|u00)(?:0[0-7bBeEfF]|1[0-9a-fA-F]|7[fF])|\\c[A-Za-z]|\\v|\\0"
)
_CLASS_OF_SEVERAL: Final = re.compile(rf"(\\.)|\[(?!(?:{_NO_SHORT_ESCAPE})\])\^?(?:\\.|[^\]\\])*\]", re.DOTALL)


class NotPortable(ValueError):
    """The pattern has something that Rust's syntax reads in another way."""


def to_rust(pattern: str) -> str:
    """``pattern`` in Rust's syntax. Raises `NotPortable`; what Rust has no syntax for is passed on as it is."""
    return "".join(map(_outer, _OUTER_TOKEN.findall(pattern)))


def has_unescapable_literal(pattern: str) -> bool:
    """Whether a control character stands in the pattern for itself, outside of a class with others, that JSON can write
    only as ``\\u`` and four digits."""
    return re.search(_NO_SHORT_ESCAPE, _CLASS_OF_SEVERAL.sub(r"\1", pattern)) is not None


def _outer(token: str) -> str:
    """An escape, a class, or a single character."""
    if token in _OUTSIDE:
        return _OUTSIDE[token]
    return _class(token) if len(token) > 1 and token[0] == "[" else _checked(token)


def _class(token: str) -> str:
    """A character class, which in ECMA 262 has no class inside."""
    start = 2 if token.startswith("[^") else 1
    inner = _INNER_TOKEN.findall(token[start:-1])
    if "--" in inner:
        raise NotPortable("has two hyphens in a row inside of [...]")
    return token[:start] + "".join(_INSIDE.get(item) or _checked(item) for item in inner) + token[-1]


def _checked(token: str) -> str:
    if _FOREIGN_ESCAPE.fullmatch(token):
        raise NotPortable(f"has {token}, which means nothing in ECMA 262")
    return token
