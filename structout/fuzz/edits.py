"""Small changes to a JSON value, of the kinds that are easily let through: one off, one too many, another type."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Final

import attrs

from structout.fuzz import values
from structout.fuzz.choices import Choices
from structout.fuzz.subject import Structure
from structout.fuzz.values import Json

_MOST_LENGTH: Final = 300
"""Nothing is lengthened beyond it."""
_LARGE: Final = 10**15
"""Beyond it there are no fractions in a float, and no floats at all sooner or later."""
_SIMPLE: Final[tuple[Json, ...]] = (None, True, 0, 1.5, "", "a", [], [0], {}, {"a": 0})


@attrs.frozen
class Hints:
    """What in a schema says where its borders are."""

    numbers: tuple[int | float, ...]
    lengths: tuple[int, ...]
    literals: tuple[Json, ...]
    names: tuple[str, ...]


_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LENGTHS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def hints_of(structure: Structure) -> Hints:
    """The bounds, literals and names in a schema and in what it refers to."""
    nodes = list(structure.reachable())
    named = [node.keywords for node in nodes]
    literals = [[words["const"]] if "const" in words else words.get("enum", ()) for words in named]
    names = [words.get("properties", ()) for words in named] + [words.get("required", ()) for words in named]
    dependents = [words[name] for words in named for name in ("dependentRequired", "dependencies") if name in words]
    return Hints(
        tuple(words[name] for words in named for name in _BOUNDS if name in words),
        tuple(int(words[name]) for words in named for name in _LENGTHS if name in words),
        tuple(chain.from_iterable(literals)),
        tuple(dict.fromkeys(chain.from_iterable([*names, *dependents]))),
    )


def edit(choices: Choices, value: Json, hints: Hints) -> Json:
    """A value with one change somewhere in it; every place in it is as likely."""
    places = list(_places(value))
    path = choices.pick(places)
    return _replaced(value, path, lambda part: _changed(choices, part, hints))


def _places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    match value:
        case dict():
            for name, inner in value.items():
                yield from _places(inner, (*path, name))
        case list():
            for index, inner in enumerate(value):
                yield from _places(inner, (*path, index))


def _replaced(value: Json, path: tuple[Any, ...], change: Callable[[Json], Json]) -> Json:
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], change)
    return copy


def _changed(choices: Choices, part: Json, hints: Hints) -> Json:
    if choices.one_in(5):
        return choices.pick((*_SIMPLE, *hints.literals))
    match part:
        case bool():
            return not part
        case int() | float():
            return _number(choices, part, hints)
        case str():
            return _string(choices, part, hints)
        case list():
            return _array(choices, part, hints)
        case dict():
            return _object(choices, part, hints)
        case _:
            return choices.pick(_SIMPLE)


def _number(choices: Choices, number: int | float, hints: Hints) -> int | float:
    start = choices.pick((number, *hints.numbers, *hints.numbers))
    if abs(start) > _LARGE:
        return choices.pick((start, -start, start + 1, start - 1))
    return choices.pick((start + 1, start - 1, start + 0.5, start - 0.5, start, -start, start * 10, start + 0.01))


def _length(choices: Choices, hints: Hints) -> int:
    """One of the lengths that the schema speaks of, or one more or less, within limits."""
    length = choices.pick(hints.lengths or (1,)) + choices.pick((0, 1, -1))
    return min(max(length, 0), _MOST_LENGTH)


def _string(choices: Choices, text: str, hints: Hints) -> str:
    at = choices.below(len(text) + 1)
    letter: str = choices.pick(values.CHARACTERS)
    match choices.below(5):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + letter + text[at:]
        case 2:
            return text[:at] + letter + text[at + 1 :]
        case 3:
            length = _length(choices, hints)
            return (text + (text[-1:] or "a") * length)[:length]
        case _:
            return choices.pick((text[:-1], text + "a", text + text, text[::-1], text.swapcase()))


def _array(choices: Choices, items: list[Json], hints: Hints) -> list[Json]:
    at = choices.below(len(items) + 1)
    match choices.below(5):
        case 0:
            return items[:at] + items[at + 1 :]
        case 1:
            return [*items[:at], choices.pick((*_SIMPLE, *hints.literals)), *items[at:]]
        case 2:
            return items + items[at : at + 1]
        case 3:
            return items[at:] + items[:at]
        case _:
            length = _length(choices, hints)
            return (items + (items[-1:] or [0]) * length)[:length]


def _object(choices: Choices, members: dict[str, Json], hints: Hints) -> dict[str, Json]:
    names = list(members)
    match choices.below(4):
        case 0 if names:
            return _dropped(members, choices.pick(names))
        case 1 if names:
            name = choices.pick(names)
            return _dropped(members, name) | {_other_name(choices, hints): members[name]}
        case 2:
            return _resized(choices, members, _length(choices, hints))
        case _:
            return members | {_other_name(choices, hints): choices.pick((*_SIMPLE, *hints.literals))}


def _dropped(members: dict[str, Json], name: str) -> dict[str, Json]:
    return {other: value for other, value in members.items() if other != name}


def _other_name(choices: Choices, hints: Hints) -> str:
    return choices.pick(hints.names) if hints.names and choices.one_in(2) else values.name(choices)


def _resized(choices: Choices, members: dict[str, Json], size: int) -> dict[str, Json]:
    """With the first ``size`` members, or so many new ones that there are as many, with a value that occurs already."""
    kept = dict(list(members.items())[:size])
    value = choices.pick([*members.values(), 0])
    names = (name for name in map(str, range(size * 2)) if name not in kept)
    return kept | dict.fromkeys(islice(names, size - len(kept)), value)
