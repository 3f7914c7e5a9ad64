"""JSON from a client, as text or as a Python value: read once, checked as a whole, and frozen to text.

What Python's own reader lets through is refused here: NaN and Infinity, a name that occurs twice in one object (two
readers may each take another), numbers that do not fit, lone surrogates, and nesting that would exhaust the stack.
"""

import collections
import json
import math
import re
from typing import Any, TypeAlias, cast

import attrs

from structout.errors import GrammarError
from structout.parsing.limits import SpecLimits
from structout.parsing.nesting import Syntax
from structout.parsing.problems import child, describe, invalid, quote, too_complex
from structout.parsing.texts import check_nesting, check_text
from structout.result import Err, Ok, Result

_Path: TypeAlias = "tuple[_Path, str | int] | None"

_PLAIN_VALUES_HINT = "Pass plain JSON: dicts with text keys, lists, strings, numbers, booleans, None"


@attrs.frozen
class JsonText:
    """A JSON text and the value that it denotes, of plain Python types, owned by whoever holds it."""

    text: str
    value: Any


def read_json(source: object, *, what: str, limits: SpecLimits, pointer: str) -> Result[JsonText, GrammarError]:
    """Freezes ``source``: JSON text if it is a string, a JSON value otherwise.

    Text is kept as it is, a value is written with its members in their order. The pointer of an error starts with
    ``pointer`` and leads on into the JSON, inside of a string too.
    """
    if isinstance(source, str):
        return _read_text(source, what=what, limits=limits, pointer=pointer)
    match plain_json(source, what=what, limits=limits, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(value):
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            checked = check_text(text, what=what, limits=limits, pointer=pointer)
            return checked.and_then(lambda text: Ok(JsonText(text, value)))


def _read_text(source: str, *, what: str, limits: SpecLimits, pointer: str) -> Result[JsonText, GrammarError]:
    match check_text(source, what=what, limits=limits, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(text):
            pass
    if not text.strip():
        return invalid(f"{what} is an empty text", pointer=pointer, hint="Leave the field out for unconstrained text")
    if isinstance(too_deep := check_nesting(text, Syntax.JSON, what=what, limits=limits, pointer=pointer), Err):
        return too_deep
    reader = _Reader(limits)
    try:
        value = reader.read(text)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        message = f"{what} is not JSON: {reason}, line {error.lineno}"
        return invalid(message, pointer=pointer, offset=error.pos)
    if reader.doubtful:
        plain = plain_json(value, what=what, limits=limits, pointer=pointer)
        return plain.and_then(lambda value: Ok(JsonText(text, value)))
    return Ok(JsonText(text, value))


class _Repeated(dict[str, Any]):
    """An object in whose text the name ``repeated`` occurs more than once."""

    repeated: str = ""


class _LongNumber:
    """An integer with more digits than the limit allows."""


_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class _Reader:
    """Python's JSON reader, and whether it has met anything that `plain_json` might refuse: most texts need no second
    look. Leaves marks of its own in the value for what a Python value could not show."""

    def __init__(self, limits: SpecLimits) -> None:
        self.doubtful = False
        self._max_digits = limits.max_number_digits

    def read(self, text: str) -> Any:
        """Raises JSONDecodeError."""
        self.doubtful = _SURROGATE_ESCAPE.search(text) is not None
        return json.loads(
            text,
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._float,
        )

    def _integer(self, digits: str) -> int | _LongNumber:
        if len(digits) <= self._max_digits:
            return int(digits)
        self.doubtful = True
        return _LongNumber()

    def _float(self, literal: str) -> float:
        number = float(literal)
        self.doubtful |= not math.isfinite(number)
        return number

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self.doubtful = True
        repeated = _Repeated(members)
        counts = collections.Counter(name for name, _ in pairs)
        repeated.repeated = counts.most_common(1)[0][0]
        return repeated


def plain_json(value: object, *, what: str, limits: SpecLimits, pointer: str) -> Result[Any, GrammarError]:
    """A copy of a JSON value in plain ``dict``, ``list``, ``str``, ..., or what in it is not JSON, and where.

    Walks without recursion, level by level, so that depth (a value may even contain itself) and size (it may contain
    one part many times over) are bounded by the limits.
    """
    check = _Check(what, limits, pointer)
    root: list[Any] = [value]
    pending: list[tuple[Any, str | int, _Path, int]] = [(root, 0, None, 0)]
    size = 0
    for container, key, path, depth in pending:
        source = container[key]
        if (refusal := check(source, path, depth)) is not None:
            return refusal
        if isinstance(source, dict):
            container[key] = copy = dict(dict.items(source))
            pending.extend((copy, name, (path, name), depth + 1) for name in copy)
            size += sum(map(len, copy)) + 4 * len(copy)
        elif isinstance(source, list):
            container[key] = items = list.copy(source)
            pending.extend((items, index, (path, index), depth + 1) for index in range(len(items)))
            size += 2 * len(items)
        elif isinstance(source, str):
            size += len(source)
        if size > limits.max_text_bytes:
            found = f"{what} has more than {limits.max_text_bytes:,} bytes"
            return too_complex(found, "max_text_bytes", limits.max_text_bytes, pointer=pointer)
    return Ok(root[0])


@attrs.frozen
class _Check:
    """What is wrong with one value, apart from what is wrong with the values in it."""

    what: str
    limits: SpecLimits
    pointer: str
    _too_large: int = attrs.field(init=False)

    @_too_large.default
    def _first_integer_with_too_many_digits(self) -> int:
        return cast("int", 10**self.limits.max_number_digits)

    def __call__(self, value: object, path: _Path, depth: int) -> Err[GrammarError] | None:
        match value:
            case None | bool():
                return None
            case str():
                return None if _fits_utf8(value) else self._not_utf8("a string", path)
            case int():
                return None if -self._too_large < value < self._too_large else self._too_many_digits(path)
            case float():
                return None if math.isfinite(value) else self._not_finite(path)
            case dict() | list():
                return self._container(value, path, depth)
            case _LongNumber():
                return self._too_many_digits(path)
            case _:
                message = f"{self.what} contains {describe(value)}, which JSON does not have"
                return invalid(message, pointer=self._at(path), hint=_PLAIN_VALUES_HINT)

    def _container(self, value: dict[Any, Any] | list[Any], path: _Path, depth: int) -> Err[GrammarError] | None:
        if depth >= self.limits.max_depth:
            found = f"{self.what} nests more than {self.limits.max_depth} levels deep"
            return too_complex(found, "max_depth", self.limits.max_depth, pointer=self.pointer)
        return self._names(value, path) if isinstance(value, dict) else None

    def _names(self, value: dict[Any, Any], path: _Path) -> Err[GrammarError] | None:
        if isinstance(value, _Repeated):
            message = f"{self.what} has the name {quote(value.repeated)} more than once in one object"
            return invalid(message, pointer=self._at(path), hint="Keep one of them: readers differ in which they take")
        for name in dict.keys(value):
            if not isinstance(name, str):
                message = f"{self.what} has {describe(name)} for a name in an object; names are strings"
                return invalid(message, pointer=self._at(path), hint=_PLAIN_VALUES_HINT)
            if not _fits_utf8(name):
                return self._not_utf8("a name", path)
        return None

    def _not_utf8(self, where: str, path: _Path) -> Err[GrammarError]:
        message = f"{self.what} has {where} with half of a surrogate pair, which UTF-8 cannot carry"
        return invalid(message, pointer=self._at(path))

    def _not_finite(self, path: _Path) -> Err[GrammarError]:
        message = f"{self.what} has a number that is NaN, infinite or beyond the range of a double"
        return invalid(message, pointer=self._at(path))

    def _too_many_digits(self, path: _Path) -> Err[GrammarError]:
        bound = self.limits.max_number_digits
        found = f"{self.what} has an integer of more than {bound} digits"
        return too_complex(found, "max_number_digits", bound, pointer=self._at(path))

    def _at(self, path: _Path) -> str:
        keys: list[str | int] = []
        while path is not None:
            path, key = path
            keys.append(key)
        return child(self.pointer, *reversed(keys))


def _fits_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
