"""Values for the keywords on strings and numbers, and for ``type``, ``enum`` and ``const``."""

from collections.abc import Mapping
from typing import Any, Final

from structout.fuzz import values
from structout.fuzz.choices import Choices
from structout.fuzz.formats import SAMPLES
from structout.fuzz.keywords.scope import Scope, WriteValue

_DIVISORS: Final = (2, 1, 3, 5, 10, 0.5, 0.1, 0.01, 1.5, 7, 0.25, 100, 1e-7, 2**33)
_ATOMS: Final = (
    *("a", "b", "[a-c]", "[0-9]", "\\d", "\\w", "[^a]", "(?:ab|c)", ".", "x", "-"),
    *("é", "\\u00e9", "[à-ü]", "\\.", "\\\\", '"', "/", " ", "\\s", "\\n", "\\S", "(a|b)", "\\D", "[\\w-]", "😀"),
)
_QUANTIFIERS: Final = (*("", "", "", "", "", "+", "*", "?"), "{2}", "{1,3}", "{2,}", "{0,2}", "+?")
_ANCHORS: Final = (("^", "$"), ("", ""), ("^", "$"), ("^", ""), ("", "$"))


def pattern(choices: Choices) -> str:
    """A regular expression of up to three parts, more often than not with both anchors."""
    before, after = choices.pick(_ANCHORS)
    pieces = [_piece(choices) for _ in range(choices.weighted(((3, 1), (3, 2), (1, 3))))]
    body = "".join(pieces)
    if choices.one_in(8):
        body = f"(?:{body}|{_piece(choices)})"
    return before + body + after


def _piece(choices: Choices) -> str:
    return choices.pick(_ATOMS) + choices.pick(_QUANTIFIERS)


def count(scope: Scope) -> int:
    """A length."""
    return scope.choices.pick(values.COUNTS)


def _bound(scope: Scope) -> int | float:
    if scope.kind == "integer" and not scope.choices.one_in(8):
        return values.integer(scope.choices)
    return values.number(scope.choices)


def _type(scope: Scope) -> str | list[str]:
    choices = scope.choices
    other = choices.pick(values.KINDS)
    match choices.weighted(((8, "own"), (3, "two"), (1, "other"))):
        case "own":
            return scope.kind
        case "two" if other != scope.kind:
            return [scope.kind, other] if choices.one_in(2) else [other, scope.kind]
        case _:
            return other


def literal(scope: Scope) -> Any:
    """A value for ``const``: of the schema's kind, mostly."""
    kind = scope.choices.pick(values.KINDS) if scope.choices.one_in(6) else scope.kind
    return values.value(scope.choices, kind)


def _enum(scope: Scope) -> list[Any]:
    options: list[Any] = []
    for _ in range(scope.choices.between(1, 4)):
        option = scope.choices.part(lambda: literal(scope))
        if not any(_same(option, other) for other in options):
            options.append(option)
    return options


def _same(left: Any, right: Any) -> bool:
    """Whether two options might be equal in JSON, where 1 is 1.0; in Python True is 1 too, which does no harm here."""
    return bool(left == right)


SCALARS: Final[Mapping[str, WriteValue]] = {
    "type": _type,
    "enum": _enum,
    "const": literal,
    "minLength": count,
    "maxLength": count,
    "pattern": lambda scope: pattern(scope.choices),
    "format": lambda scope: scope.choices.pick(tuple(SAMPLES)),
    "minimum": _bound,
    "maximum": _bound,
    "exclusiveMinimum": _bound,
    "exclusiveMaximum": _bound,
    "multipleOf": lambda scope: scope.choices.pick(_DIVISORS),
}
