"""Deterministic automata for patterns, over code points, and the EBNF rules that say the same.

Thompson's construction, the subset construction and Hopcroft's minimisation, as in the textbooks. Rules with disjoint
alternatives are as fast in xgrammar as its own automata, and leave it nothing to merge.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

from structout.errors import ErrorKind
from structout.result import Err, Ok, Result
from structout_xgrammar import codepoints
from structout_xgrammar.codepoints import Ranges
from structout_xgrammar.patterns import Anchor, Chars, Choice, Fault, Repeat, Sequence, Tree

MAX_STATES: Final = 512
"""Each costs xgrammar 1 to 20 ms of compiling for a vocabulary of 50,000 tokens."""
_MAX_PARTS: Final = 20_000
"""States before an automaton is made deterministic; a counted repetition is written out."""

_Moves: TypeAlias = Mapping[int, int]
_State = TypeVar("_State", bound=Hashable)
_NfaStates: TypeAlias = tuple[bool, frozenset[int]]
"""States of a nondeterministic automaton, and whether nothing has been read yet."""


@attrs.frozen
class Automaton:
    """A deterministic automaton without dead ends, which starts in state 0.

    Attributes:
        alphabet: disjoint sets of code points that no pattern in it tells apart.
        moves: for each state the states that these sets, by their index, lead to.
        accepting: the states in which a text may end.
    """

    alphabet: tuple[Ranges, ...]
    moves: tuple[_Moves, ...]
    accepting: frozenset[int]

    def within(self, lower: int, upper: int | None) -> "Result[Automaton, Fault]":
        """Those of its texts that have ``lower`` to ``upper`` characters."""
        counted = lower if upper is None else upper

        def moves(state: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int]]]:
            number, length = state
            if upper is None or length < upper:
                yield from ((letter, (to, min(length + 1, counted))) for letter, to in self.moves[number].items())

        return _explore(self.alphabet, (0, 0), moves, lambda state: state[0] in self.accepting and state[1] >= lower)

    def targets(self, state: int) -> Iterator[tuple[Ranges, int]]:
        """Where a state leads to: each state once, with all the code points that lead there."""
        by_target: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for letter, target in self.moves[state].items():
            by_target[target].extend(self.alphabet[letter])
        yield from ((codepoints.union(ranges), target) for target, ranges in by_target.items())


def automaton(tree: Tree) -> Result[Automaton, Fault]:
    """The automaton of the texts that a pattern matches as a whole, or why it cannot be had."""
    nfa = _Thompson()
    try:
        start, end = nfa.build(tree)
    except Fault as fault:
        return Err(fault)
    alphabet, letters = _alphabet({ranges for ranges, _ in filter(None, nfa.chars)})

    def moves(state: _NfaStates) -> Iterator[tuple[int, _NfaStates]]:
        targets: dict[int, list[int]] = defaultdict(list)
        for ranges, target in filter(None, map(nfa.chars.__getitem__, state[1])):
            for letter in letters[ranges]:
                targets[letter].append(target)
        yield from ((letter, (False, nfa.states_after(states))) for letter, states in targets.items())

    def accepts(state: _NfaStates) -> bool:
        return end in nfa.closure(state[1], at_start=state[0], at_end=True)

    return _explore(alphabet, (True, nfa.closure([start], at_start=True)), moves, accepts)


class _Thompson:
    """A nondeterministic automaton under construction. A part of a pattern is a pair of its states, the first and the
    last; nothing leaves the last until the part is put to use."""

    def __init__(self) -> None:
        self.chars: list[tuple[Ranges, int] | None] = []
        self._empty: list[list[int]] = []
        self._anchored: list[tuple[bool, int] | None] = []
        self._after: dict[int, frozenset[int]] = {}

    def _state(self) -> int:
        if len(self.chars) == _MAX_PARTS:
            raise Fault(f"it has more than {_MAX_PARTS} parts when its repetitions are written out", kind=_TOO_COMPLEX)
        self.chars.append(None)
        self._empty.append([])
        self._anchored.append(None)
        return len(self.chars) - 1

    def build(self, tree: Tree) -> tuple[int, int]:
        match tree:
            case Sequence(parts):
                return self._chain(map(self.build, parts))
            case Repeat(part, lower, None):
                return self._chain([*(self.build(part) for _ in range(lower)), self._loop(part)])
            case Repeat(part, lower, int(upper)):
                return self._chain([*(self.build(part) for _ in range(lower)), self._at_most(part, upper - lower)])
            case _:
                return self._fork(tree)

    def _fork(self, tree: Chars | Anchor | Choice | Tree) -> tuple[int, int]:
        start, end = self._state(), self._state()
        match tree:
            case Chars(ranges):
                self.chars[start] = (codepoints.intersection(ranges, codepoints.ALL), end)
            case Anchor(at_end):
                self._anchored[start] = (at_end, end)
            case Choice(options):
                for first, last in map(self.build, options):
                    self._empty[start].append(first)
                    self._empty[last].append(end)
        return start, end

    def _chain(self, parts: Iterable[tuple[int, int]]) -> tuple[int, int]:
        start = end = self._state()
        for first, last in parts:
            self._empty[end].append(first)
            end = last
        return start, end

    def _at_most(self, tree: Tree, count: int) -> tuple[int, int]:
        start, end = self._state(), self._state()
        here = start
        for _ in range(count):
            first, last = self.build(tree)
            self._empty[here] += [first, end]  # past all the others, which keeps closures small
            here = last
        self._empty[here].append(end)
        return start, end

    def _loop(self, tree: Tree) -> tuple[int, int]:
        hub, (first, last), end = self._state(), self.build(tree), self._state()
        self._empty[hub] += [first, end]
        self._empty[last].append(hub)
        return hub, end

    def closure(self, states: Iterable[int], *, at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """What can be reached from ``states`` without reading anything, where the text starts or ends."""
        pending, found = list(states), set(states)
        while pending:
            state = pending.pop()
            anchored = self._anchored[state]
            passed = [anchored[1]] if anchored and (at_end if anchored[0] else at_start) else []
            fresh = {*self._empty[state], *passed} - found
            found |= fresh
            pending.extend(fresh)
        return frozenset(found)

    def states_after(self, states: Iterable[int]) -> frozenset[int]:
        """The closure inside the text, without states that only lead on to others in it."""
        for state in states:
            if state not in self._after:
                self._after[state] = frozenset(filter(self._matters, self.closure([state])))
        return frozenset().union(*(self._after[state] for state in states))

    def _matters(self, state: int) -> bool:
        return self.chars[state] is not None or self._anchored[state] is not None or not self._empty[state]


_TOO_COMPLEX: Final = ErrorKind.TOO_COMPLEX


def _alphabet(sets: Iterable[Ranges]) -> tuple[tuple[Ranges, ...], Mapping[Ranges, list[int]]]:
    """The coarsest disjoint sets that all of ``sets`` are made of, and the indices of those in each."""
    sets = list(sets)
    edges = sorted({edge for ranges in sets for first, last in ranges for edge in (first, last + 1)})
    members: dict[frozenset[int], list[tuple[int, int]]] = defaultdict(list)
    for first, after in itertools.pairwise(edges):
        inside = frozenset(i for i, ranges in enumerate(sets) if codepoints.contains(ranges, first))
        if inside:
            members[inside].append((first, after - 1))
    letters: dict[Ranges, list[int]] = {ranges: [] for ranges in sets}
    for letter, inside in enumerate(members):
        for index in inside:
            letters[sets[index]].append(letter)
    return tuple(map(codepoints.union, members.values())), letters


def _explore(
    alphabet: tuple[Ranges, ...],
    start: _State,
    moves: Callable[[_State], Iterable[tuple[int, _State]]],
    accepts: Callable[[_State], bool],
) -> Result[Automaton, Fault]:
    """The least automaton of all that can be reached from ``start`` and from which the end can be reached."""
    numbers, rows = {start: 0}, []
    states = [start]
    for state in states:
        row = {}
        for letter, target in moves(state):
            if target not in numbers:
                numbers[target] = len(states)
                states.append(target)
            row[letter] = numbers[target]
        rows.append(row)
        if len(states) > 4 * MAX_STATES:
            return Err(_too_many_states())
    accepting = {number for number, state in enumerate(states) if accepts(state)}
    return _least(alphabet, rows, accepting)


def _too_many_states() -> Fault:
    return Fault(f"its automaton has more than {MAX_STATES} states", kind=_TOO_COMPLEX)


def _least(alphabet: tuple[Ranges, ...], rows: list[dict[int, int]], accepting: set[int]) -> Result[Automaton, Fault]:
    live = _live(rows, accepting)
    if 0 not in live:
        return Err(Fault("it matches no text", kind=ErrorKind.UNSATISFIABLE))
    rows = [{letter: target for letter, target in row.items() if target in live} for row in rows]
    blocks = _blocks(rows, accepting)
    first_of = {blocks[state]: state for state in reversed(range(len(rows))) if state in live}
    numbers = {block: number for number, block in enumerate(sorted(first_of, key=first_of.__getitem__))}
    if len(numbers) > MAX_STATES:
        return Err(_too_many_states())
    kept = sorted(first_of.values())
    moves = tuple({letter: numbers[blocks[target]] for letter, target in rows[state].items()} for state in kept)
    return Ok(Automaton(alphabet, moves, frozenset(numbers[blocks[state]] for state in accepting)))


def _live(rows: list[dict[int, int]], accepting: set[int]) -> set[int]:
    """The states from which an accepting one can be reached."""
    sources: dict[int, list[int]] = defaultdict(list)
    for state, row in enumerate(rows):
        for target in row.values():
            sources[target].append(state)
    pending, live = list(accepting), set(accepting)
    while pending:
        fresh = set(sources[pending.pop()]) - live
        live |= fresh
        pending.extend(fresh)
    return live


def _blocks(rows: list[dict[int, int]], accepting: set[int]) -> list[int]:
    """For each state the number of its block of states that no text tells apart: Hopcroft's algorithm."""
    sources: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for state, row in enumerate(rows):
        for letter, target in row.items():
            sources[target][letter].add(state)
    blocks = [block for block in (set(accepting), set(range(len(rows))) - accepting) if block]
    number = [next(i for i, block in enumerate(blocks) if state in block) for state in range(len(rows))]
    pending = set(range(len(blocks)))
    while pending:
        into: dict[int, set[int]] = defaultdict(set)
        for state in blocks[pending.pop()]:
            for letter, found in sources[state].items():
                into[letter] |= found
        for found in into.values():
            _split(found, blocks, number, pending)
    return number


def _split(found: set[int], blocks: list[set[int]], number: list[int], pending: set[int]) -> None:
    """Splits each block into its states in ``found`` and the others."""
    inside: dict[int, set[int]] = defaultdict(set)
    for state in found:
        inside[number[state]].add(state)
    for block, states in inside.items():
        if len(states) == len(blocks[block]):
            continue
        blocks[block] -= states
        blocks.append(states)
        for state in states:
            number[state] = len(blocks) - 1
        smaller = block if len(blocks[block]) < len(states) else len(blocks) - 1
        pending.add(len(blocks) - 1 if block in pending else smaller)
