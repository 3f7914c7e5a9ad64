"""Objects with a fixed set of names, as the dialects are made of: an unknown name is an error, never ignored."""

from collections.abc import Mapping
from typing import Any

from structout.errors import GrammarError
from structout.parsing.problems import child, describe, invalid, quote, quote_all, suggestion
from structout.result import Ok, Result


def members(
    value: object, known: tuple[str, ...], *, what: str, pointer: str, hint: str | None = None
) -> Result[dict[str, Any], GrammarError]:
    """The members of an object that are not null; null is what clients write for a field they leave out.

    Args:
        known: all the names that it may have.
        what: the object, as messages call it.
        hint: what to do where the value is no object at all.
    """
    if not isinstance(value, Mapping):
        return invalid(f"{what} must be an object, not {describe(value)}", pointer=pointer, hint=hint)
    given = {name: item for name, item in value.items() if item is not None}
    for name in given:
        if not isinstance(name, str):
            return invalid(f"{what} has {describe(name)} for a field name; names are strings", pointer=pointer)
        if name not in known:
            return _unknown(name, known, what, pointer)
    return Ok(given)


def _unknown(name: str, known: tuple[str, ...], what: str, pointer: str) -> Result[Any, GrammarError]:
    return invalid(
        f"{what} has no field {quote(name)}{suggestion(name, known)}",
        pointer=child(pointer, name),
        keyword=name,
        hint=f"The fields are {quote_all(known, 'and')}",
    )


def only_one(
    given: Mapping[str, object], names: tuple[str, ...], *, what: str, pointer: str
) -> Result[str, GrammarError]:
    """Which one of the ``names`` is given; an error when none is, or more than one."""
    found = [name for name in names if name in given]
    if len(found) == 1:
        return Ok(found[0])
    if found:
        hint = "Keep one of them"
        return invalid(
            f"{what} has {quote_all(found, 'and')} at the same time", pointer=pointer, keyword=found[-1], hint=hint
        )
    needed = quote_all(names)
    return invalid(
        f"{what} is empty" if not given else f"{what} has no {needed}", pointer=pointer, hint=f"Give {needed}"
    )
