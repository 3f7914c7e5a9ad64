"""The one form that everything is compiled to: expressions over bytes, and rules that give expressions names.

Nodes are immutable values, equal if they are built alike; their hash is computed once. An expression that is what is
left of another one is an expression too, so a place in a grammar needs no type of its own.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import attrs


@attrs.frozen(cache_hash=True)
class Bytes:
    """One byte out of a set; no text at all if the set is empty."""

    allowed: frozenset[int]


@attrs.frozen(cache_hash=True)
class Text:
    """These bytes, at least one."""

    data: bytes


@attrs.frozen(cache_hash=True)
class Seq:
    """One part after the other; none is the empty text. Made by `seq`: no part is itself a sequence."""

    parts: "tuple[Node, ...]"


@attrs.frozen(cache_hash=True)
class Alt:
    """One of several options; none is no text at all. Made by `alt`."""

    options: "tuple[Node, ...]"


@attrs.frozen(cache_hash=True)
class Repeat:
    """A part ``low`` to ``high`` times, without an upper bound if that is None. Made by `repeat`."""

    part: "Node"
    low: int
    high: int | None


@attrs.frozen(cache_hash=True)
class Ref:
    """What the rule of this name stands for."""

    rule: str


Node: TypeAlias = Bytes | Text | Seq | Alt | Repeat | Ref
Rules: TypeAlias = Mapping[str, Node]

EMPTY: Final = Seq(())
"""The empty text."""
NOTHING: Final = Alt(())
"""No text, not even the empty one."""


def one_of(allowed: Iterable[int]) -> Bytes:
    return Bytes(frozenset(allowed))


def text(data: bytes) -> Node:
    return Text(data) if data else EMPTY


def seq(*parts: Node) -> Node:
    flat: list[Node] = []
    for part in parts:
        flat += part.parts if isinstance(part, Seq) else (part,)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def alt(*options: Node) -> Node:
    """Options that are single bytes become one."""
    single = [option for option in options if isinstance(option, Bytes)]
    merged = [Bytes(frozenset().union(*(option.allowed for option in single)))] if single else []
    several = (*merged, *dict.fromkeys(option for option in options if not isinstance(option, Bytes)))
    return several[0] if len(several) == 1 else Alt(several)


def repeat(part: Node, low: int = 0, high: int | None = None) -> Node:
    """``part`` from ``low`` to ``high`` times; nothing if that is no number of times."""
    if high is not None and high < low:
        return NOTHING
    return EMPTY if high == 0 else Repeat(part, low, high)


def optional(part: Node) -> Node:
    return repeat(part, 0, 1)


def once_less(node: Repeat) -> Node:
    """What is left of a repetition after one time."""
    return repeat(node.part, max(node.low - 1, 0), None if node.high is None else node.high - 1)


Leaf: TypeAlias = Bytes | Text | Ref


def holds(node: Node, of_leaf: Callable[[Leaf], bool]) -> bool:
    """Whether a node can be matched with nothing but leaves for which ``of_leaf`` holds."""
    match node:
        case Seq(parts=parts):
            return all(holds(part, of_leaf) for part in parts)
        case Alt(options=options):
            return any(holds(option, of_leaf) for option in options)
        case Repeat(part=part, low=low):
            return low == 0 or holds(part, of_leaf)
        case _:
            return of_leaf(node)


def closed(rules: Rules, of_bytes: Callable[[Bytes | Text], bool]) -> frozenset[str]:
    """The names of the rules that `holds` for, if a reference does where it does for the rule: the least such set."""
    found: set[str] = set()

    def of_leaf(leaf: Leaf) -> bool:
        return leaf.rule in found if isinstance(leaf, Ref) else of_bytes(leaf)

    while fresh := {name for name, body in rules.items() if name not in found and holds(body, of_leaf)}:
        found |= fresh
    return frozenset(found)


def longest(rules: Rules) -> int:
    """The number of parts of the longest sequence, and of bytes of the longest text."""

    @functools.cache
    def length(node: Node) -> int:
        match node:
            case Text(data=data):
                return len(data)
            case Seq(parts=parts):
                return max(len(parts), max(map(length, parts), default=0))
            case Alt(options=options):
                return max(map(length, options), default=0)
            case Repeat(part=part):
                return length(part)
            case _:
                return 1

    return max(map(length, rules.values()))


def nullable_rules(rules: Rules) -> frozenset[str]:
    """The rules that match the empty text."""
    return closed(rules, lambda _leaf: False)


def pruned(rules: Rules, alphabet: frozenset[int]) -> Rules:
    """The same language without dead ends: every option that is left can be finished with bytes of the alphabet."""

    def of_bytes(leaf: Bytes | Text) -> bool:
        return alphabet.issuperset(leaf.data) if isinstance(leaf, Text) else not alphabet.isdisjoint(leaf.allowed)

    finite = closed(rules, of_bytes)

    @functools.cache
    def is_finite(node: Node) -> bool:
        return holds(node, lambda leaf: leaf.rule in finite if isinstance(leaf, Ref) else of_bytes(leaf))

    @functools.cache
    def prune(node: Node) -> Node:
        match node:
            case Seq(parts=parts):
                return seq(*map(prune, parts))
            case Alt(options=options):
                return alt(*map(prune, filter(is_finite, options)))
            case Repeat(part=part, low=low, high=high):
                return repeat(prune(part), low, high) if is_finite(part) else EMPTY
            case _:
                return node

    return {name: prune(rules[name]) for name in finite}
