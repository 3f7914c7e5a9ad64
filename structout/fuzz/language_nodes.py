"""Small languages as trees, what is in them, and texts from them. The strategies generate these, never syntax.

`Language.has` is a recognizer of its own, as plain as it can be, so that what it says of a text can be held against
what any backend says.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from structout.fuzz.choices import Choices

SAMPLE: Final = "ab01c -_.,:\"'\\/()[]{}<>|^$*+?#=\n\téü漢字😀"
"""The characters that texts are made of where a class leaves the choice: the plainest first."""
CLUSTERS: Final = ("\r\n", "a\u0301", "\ufb01")
"""What those who tidy texts up replace: a line break of two characters, and what has a normal form."""


@attrs.frozen
class Literal:
    """This text; it may be empty."""

    text: str


@attrs.frozen
class CharClass:
    """One character of some ranges, ends included; with ``negated`` one of no range."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def has(self, character: str) -> bool:
        return any(first <= character <= last for first, last in self.ranges) is not self.negated

    def samples(self) -> str:
        """Some characters of the class."""
        return "".join(filter(self.has, SAMPLE)) or next(filter(self.has, map(chr, range(0x10FFFF))))


ANY_BUT_NEWLINE: Final = CharClass((("\n", "\n"),), negated=True)
"""What a dot stands for in a regular expression."""


@attrs.frozen
class Seq:
    """One part after the other."""

    parts: "tuple[Node, ...]"


@attrs.frozen
class Alt:
    """One of several options."""

    options: "tuple[Node, ...]"


@attrs.frozen
class Repeat:
    """A part ``low`` to ``high`` times, without an upper bound if that is None."""

    part: "Node"
    low: int
    high: int | None


@attrs.frozen
class RuleRef:
    """What the rule of this name stands for."""

    name: str


Node: TypeAlias = Literal | CharClass | Seq | Alt | Repeat | RuleRef

_MORE_TIMES: Final = 3
"""How often a derivation repeats at most beyond the lower bound."""


@attrs.frozen
class Language:
    """The texts of a tree.

    Attributes:
        start: the tree of a whole text.
        rules: the trees that references stand for. Every rule has a text.
    """

    start: Node
    rules: Mapping[str, Node] = attrs.field(factory=dict)

    def has(self, text: str) -> bool:
        """Whether ``text`` is of the language."""
        return len(text) in _Ends(self.rules, text).of_whole(self.start)

    def derive(self, choices: Choices, fuel: int = 12) -> str:
        """A text of the language. ``fuel`` references are followed freely; then the shortest way out is taken."""
        return "".join(_Derivation(self, choices, fuel).derive(self.start))


class _Ends:
    """Where a match in one text can end, by where it starts: the least solution, found by trying until nothing is new.

    So left recursion, ambiguity and rules that match the empty text need no thought.
    """

    def __init__(self, rules: Mapping[str, Node], text: str) -> None:
        self._rules = rules
        self._text = text
        self._found: dict[tuple[str, int], set[int]] = {}

    def of_whole(self, node: Node) -> set[int]:
        while True:
            ends, known = self._of(node, 0), self._size()
            for name, start in list(self._found):
                self._found[name, start] |= self._of(self._rules[name], start)
            if self._size() == known:
                return ends

    def _size(self) -> tuple[int, int]:
        return len(self._found), sum(map(len, self._found.values()))

    def _of(self, node: Node, start: int) -> set[int]:
        match node:
            case Literal(text=text):
                return {start + len(text)} if self._text.startswith(text, start) else set()
            case CharClass():
                return {start + 1} if start < len(self._text) and node.has(self._text[start]) else set()
            case Seq(parts=parts):
                ends = {start}
                for part in parts:
                    ends = self._after(part, ends)
                return ends
            case Alt(options=options):
                return set[int]().union(*(self._of(option, start) for option in options))
            case Repeat():
                return self._of_repeat(node, start)
            case RuleRef(name=name):
                return self._found.setdefault((name, start), set())

    def _after(self, node: Node, starts: set[int]) -> set[int]:
        return set[int]().union(*(self._of(node, start) for start in starts))

    def _of_repeat(self, node: Repeat, start: int) -> set[int]:
        """More times than there are characters lead nowhere else."""
        most = node.low + len(self._text) if node.high is None else node.high
        ends, found = {start}, set[int]()
        for times in range(most + 1):
            found |= ends if times >= node.low else set()
            ends = self._after(node.part, ends)
            if not ends:
                break
        return found


class _Derivation:
    """One text in the making."""

    def __init__(self, language: Language, choices: Choices, fuel: int) -> None:
        self._rules = language.rules
        self._heights = _heights(language.rules)
        self._choices = choices
        self._fuel = fuel

    def derive(self, node: Node) -> list[str]:
        match node:
            case Literal(text=text):
                return [text]
            case CharClass():
                return [self._choices.pick(node.samples())]
            case Seq(parts=parts):
                return [text for part in parts for text in self.derive(part)]
            case Alt():
                return self.derive(self._option(node))
            case Repeat():
                return [text for _ in range(self._times(node)) for text in self.derive(node.part)]
            case RuleRef(name=name):
                self._fuel -= 1
                return self.derive(self._rules[name])

    def _option(self, node: Alt) -> Node:
        if self._fuel <= 0:
            return min(node.options, key=lambda option: _height(option, self._heights))
        return self._choices.pick(node.options)

    def _times(self, node: Repeat) -> int:
        most = node.low + _MORE_TIMES if node.high is None else min(node.high, node.low + _MORE_TIMES)
        return self._choices.between(node.low, most) if self._fuel > 0 else node.low


_UNKNOWN: Final = 10**6


def _heights(rules: Mapping[str, Node]) -> Mapping[str, int]:
    """How many references deep the shallowest text of each rule is."""
    heights = defaultdict[str, int](lambda: _UNKNOWN)
    while True:
        better = {name: height for name, body in rules.items() if (height := _height(body, heights)) < heights[name]}
        if not better:
            return heights
        heights.update(better)


def _height(node: Node, heights: Mapping[str, int]) -> int:
    match node:
        case Literal() | CharClass():
            return 0
        case Seq(parts=parts):
            return max((_height(part, heights) for part in parts), default=0)
        case Alt(options=options):
            return min(_height(option, heights) for option in options)
        case Repeat(part=part, low=low):
            return _height(part, heights) if low else 0
        case RuleRef(name=name):
            return 1 + heights[name]
