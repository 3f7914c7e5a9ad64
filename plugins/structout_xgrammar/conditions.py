"""Conditions on which the tables' rules apply."""

from typing import Final

from structout.schema.scan import Condition, all_of
from structout.schema.walk import Node
from structout_xgrammar.disjoint import broad
from structout_xgrammar.reading import decider, written_types

LOWER_BOUNDS: Final = ("minimum", "exclusiveMinimum")
UPPER_BOUNDS: Final = ("maximum", "exclusiveMaximum")
BOUNDS: Final = LOWER_BOUNDS + UPPER_BOUNDS


def alone(*conditions: Condition) -> Condition:
    """Where no decider stands in the same schema, and all of the conditions hold."""
    return all_of(lambda node, _keyword: decider(node) is None, *conditions)


def for_type(name: str, *conditions: Condition) -> Condition:
    """Where values of a type are written, and all of the conditions hold. Integers are of the type ``number``."""
    return alone(lambda node, _keyword: name in broad(written_types(node)), *conditions)


def writes_fractions(node: Node, _keyword: str) -> bool:
    """Where numbers are written that are no integers."""
    return "number" in written_types(node)


def has_unlisted(node: Node, _keyword: str) -> bool:
    """Where ``required`` has a name that ``properties`` does not list."""
    return not set(node.keywords["required"]) <= set(node.keywords.get("properties", ()))
