"""What adds up or multiplies along the paths through a schema, references followed."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from structout.compile.risk.graph import Order, inner_first
from structout.compile.risk.measures import CAP, Measure, Measures
from structout.compile.risk.schemas import Walk
from structout.result import Ok
from structout.schema import pointer as json_pointer

_SUMS: Final = frozenset({"anyOf", "oneOf"})
_IN_PLACE: Final = _SUMS | {"allOf"}
_NAMED: Final = frozenset({"dependentSchemas", "dependencies"})
_APPLIED: Final = _IN_PLACE | _NAMED | {"not", "if", "then", "else"}


class _Paths:
    """For each array and object: how often what is inside it is repeated, in how many ways alternatives combine.

    Attributes:
        repetitions: the largest product of nested counts.
        forms: how many schemas without alternatives it comes to where it stands.
        applied: how many schemas are applied where it stands; twice as many where unevaluatedProperties or
            unevaluatedItems has them all looked at once more.
        chain: the most references that lead to one another; all targets that get into a circle are one chain.
    """

    def __init__(self, walk: Walk, targets: Mapping[int, Sequence[int]]) -> None:
        count = len(walk.values)
        self._walk = walk
        self._targets = targets
        self.repetitions = list(walk.counts)
        self.forms = [1] * count
        self.applied = [1] * count
        self._inside: list[list[int]] = [[] for _ in range(count)]
        self._in_place: list[list[int]] = [list(targets.get(node, ())) for node in range(count)]
        for node, parent in enumerate(walk.parents):
            if parent >= 0:
                self._inside[parent].append(node)
                if _is_in_place(walk, node, parent):
                    self._in_place[parent].append(node)
        # In place nothing that is valid goes round in circles: here products are those of every path.
        _fold(self._in_place, self.forms, self._forms_of)
        _fold(self._in_place, self.applied, self._applied_of)
        leads_to = [[*inside, *targets.get(node, ())] for node, inside in enumerate(self._inside)]
        order = _fold(leads_to, self.repetitions, self._repetitions_of)
        self.chain = self._longest_chain(order.inner, sorted([*order.circular, *order.outer]))

    def _longest_chain(self, order: Sequence[int], circular: Sequence[int]) -> int:
        targets = self._targets
        if not targets:
            return 0
        chains = [0] * len(self._inside)
        round_about = set(circular)
        for node in [*order, *reversed(circular)]:
            inside = (chains[inner] for inner in self._inside[node])
            beyond = (chains[target] + 1 for target in targets.get(node, ()) if target not in round_about)
            chains[node] = max(max(inside, default=0), max(beyond, default=0))
        return max(chains) + len(round_about.intersection(itertools.chain(*targets.values())))

    def _forms_of(self, node: int) -> int:
        names = self._walk.names
        is_list = isinstance(self._walk.values[node], list)
        inside = [inner for inner in self._inside[node] if names[node if is_list else inner] in _IN_PLACE]
        forms = [self.forms[inner] for inner in (*inside, *self._targets.get(node, ()))]
        return _sum(forms) if is_list and names[node] in _SUMS else _product(forms)

    def _applied_of(self, node: int) -> int:
        itself = 1 if isinstance(self._walk.values[node], dict) else 0
        applied = itself + sum(self.applied[inner] for inner in self._in_place[node])
        return min(2 * applied if node in self._walk.twice else applied, CAP)

    def _repetitions_of(self, node: int) -> int:
        inside = (self.repetitions[inner] for inner in (*self._inside[node], *self._targets.get(node, ())))
        return min(self._walk.counts[node] * max(inside, default=1), CAP)


def _fold(leads_to: Sequence[Sequence[int]], values: list[int], value_of: Callable[[int], int]) -> Order:
    """Sets each node's value, from the inside to the outside; what is in a circle is gone round twice. Returns this
    order."""
    order = inner_first(leads_to)
    for node in order.inner:
        values[node] = value_of(node)
    for _ in range(2):
        # As they are before this round, so that it does not matter which comes first.
        for node, value in [(node, value_of(node)) for node in order.circular]:
            values[node] = value
    for node in order.outer:
        values[node] = value_of(node)
    return order


def _is_in_place(walk: Walk, node: int, parent: int) -> bool:
    """Whether what stands at ``node`` applies to the same value as what is around it."""
    if isinstance(walk.values[parent], list) or walk.names[parent] in _NAMED:
        return walk.names[parent] in _APPLIED
    return walk.names[node] in _APPLIED


def _unresolved(walk: Walk, targets: Mapping[int, Sequence[int]]) -> int:
    """By how much references that are not followed may multiply: each URI by the number of times that it is named."""
    named = Counter(uri for node, uri in walk.references if node not in targets)
    product = 1
    for times in named.values():
        product = min(product * (1 + times), CAP)
    return product


def _sum(numbers: Sequence[int]) -> int:
    return max(1, min(sum(numbers), CAP))


def _product(numbers: Sequence[int]) -> int:
    product = 1
    for number in numbers:
        product = min(product * number, CAP)
    return product


def add_paths(measures: Measures, walk: Walk) -> None:
    """Adds what is measured along paths. All that gets into a circle of references counts as one chain."""
    if not walk.references and max(walk.counts, default=1) == 1 and _APPLIED.isdisjoint(walk.names):
        return
    targets, missing = _targets(walk)
    paths = _Paths(walk, targets)
    measures[Measure.REFERENCES] = len({uri for _, uri in walk.references}) if walk.embedded else paths.chain + missing
    for measure, found in ((Measure.ALTERNATIVES, paths.forms), (Measure.REPETITION, paths.repetitions)):
        if (largest := max(found, default=1)) > 1:
            measures[measure] = largest
    if walk.twice:
        measures[Measure.UNEVALUATED] = min(max(paths.applied) * _unresolved(walk, targets), CAP)


def _targets(walk: Walk) -> tuple[dict[int, list[int]], int]:
    """Where the references lead that are JSON pointers into their own document, and how many others there are."""
    if not walk.references:
        return {}, 0
    index = {id(value): node for node, value in enumerate(walk.values)}
    targets: dict[int, list[int]] = defaultdict(list)
    known: dict[tuple[int, str], int | None] = {}
    for node, uri in walk.references:
        key = (walk.documents[node], uri)
        if key not in known:
            known[key] = _target(walk.values[key[0]], uri, index)
        if (target := known[key]) is not None:
            targets[node].append(target)
    return dict(targets), sum(target is None for target in known.values())


def _target(document: object, uri: str, index: dict[int, int]) -> int | None:
    if not uri.startswith("#"):
        return None
    match json_pointer.from_fragment(uri[1:]).and_then(lambda pointer: json_pointer.resolve(document, pointer)):
        case Ok(value):
            return index.get(id(value))
    return None
