"""Where in a request a constraint stands, so that what is found in it later can be told with its place there."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import attrs

from structout.errors import GrammarError
from structout.parsing.limits import SpecLimits
from structout.result import Result
from structout.spec import GrammarSpec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S", bound=GrammarSpec)
S_co = TypeVar("S_co", bound=GrammarSpec, covariant=True)


def _whole(place: "Place") -> Mapping[str, str]:
    return MappingProxyType({"": place.pointer})


@attrs.frozen
class Place:
    """The field of a request that something was read from. All pointers are RFC 6901's.

    Attributes:
        pointer: of the field.
        parts: where in the request the parts of a spec stand, by their pointers into the spec: of one that is the
            field's value as a whole when not given.
    """

    pointer: str
    parts: Mapping[str, str] = attrs.field(default=attrs.Factory(_whole, takes_self=True))

    def of(self, pointer: str | None) -> str:
        """A pointer into the spec as one into the request; the field's own where it is None, or leads to what the
        request does not have."""
        inside = pointer
        while inside is not None:
            if (place := self.parts.get(inside)) is not None:
                return place + (pointer or "")[len(inside) :]
            inside = inside.rpartition("/")[0] if inside.startswith("/") else None
        return self.pointer


@attrs.frozen
class Placed(Generic[T_co]):
    """Something that a request says, and where it says it."""

    value: T_co
    place: Place


class Constructor(Protocol[S_co]):
    """Makes one kind of spec out of a field's value."""

    def __call__(self, value: object, /, *, limits: SpecLimits, pointer: str) -> Result[S_co, GrammarError]: ...


class Reader(Protocol[S_co]):
    """Makes a spec out of a field's value, and says where it stands."""

    def __call__(self, value: object, /, *, limits: SpecLimits, pointer: str) -> Result[Placed[S_co], GrammarError]: ...


def as_it_stands(constructor: Constructor[S]) -> Reader[S]:
    """Reads fields whose value is the constraint as a whole."""

    def read(value: object, /, *, limits: SpecLimits, pointer: str) -> Result[Placed[S], GrammarError]:
        made = constructor(value, limits=limits, pointer=pointer)
        return made.map(lambda spec: Placed(spec, Place(pointer)))

    return read


def value_of(placed: Placed[T] | None) -> T | None:
    """What was said, without the place."""
    return None if placed is None else placed.value
