"""What adds up or multiplies along the paths through a schema, references followed."""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from structout.compile.risk.graph import inner_first
from structout.compile.risk.measures import CAP, Measure, Measures
from structout.compile.risk.schemas import Walk
from structout.result import Ok
from structout.schema import pointer as json_pointer

_SUMS: Final = frozenset({"anyOf", "oneOf"})
_IN_PLACE: Final = _SUMS | {"allOf"}


class _Paths:
    """For each array and object: how often what is inside it is repeated, in how many ways alternatives combine.

    Attributes:
        repetitions: the largest product of nested counts.
        forms: how many schemas without alternatives it comes to where it stands.
        alternatives: the most of these in it, or inside it.
        chain: the most references that lead to one another; all targets that get into a circle are one chain.
    """

    def __init__(self, walk: Walk) -> None:
        count = len(walk.values)
        self._walk = walk
        self.repetitions = list(walk.counts)
        self.forms = [1] * count
        self.alternatives = [1] * count
        self.chain = 0
        self._inside: list[list[int]] = [[] for _ in range(count)]
        for node, parent in enumerate(walk.parents):
            if parent >= 0:
                self._inside[parent].append(node)

    def follow(self, targets: Mapping[int, Sequence[int]]) -> None:
        """Goes from the inside to the outside. What gets into a circle is gone round twice."""
        leads_to = [[*inside, *targets.get(node, ())] for node, inside in enumerate(self._inside)]
        order, circular = inner_first(leads_to)
        for node in order:
            self._fold(node, [self._seen(target) for target in targets.get(node, ())])
        for _ in range(2):
            # As they are before this round, so that it does not matter which comes first.
            seen = {node: [self._seen(target) for target in targets.get(node, ())] for node in circular}
            for node in reversed(circular):
                self._fold(node, seen[node])
        self.chain = self._longest_chain(targets, order, circular)

    def _longest_chain(
        self, targets: Mapping[int, Sequence[int]], order: Sequence[int], circular: Sequence[int]
    ) -> int:
        if not targets:
            return 0
        chains = [0] * len(self._inside)
        round_about = set(circular)
        for node in [*order, *reversed(circular)]:
            inside = (chains[inner] for inner in self._inside[node])
            beyond = (chains[target] + 1 for target in targets.get(node, ()) if target not in round_about)
            chains[node] = max(max(inside, default=0), max(beyond, default=0))
        return max(chains) + len(round_about.intersection(itertools.chain(*targets.values())))

    def _seen(self, target: int) -> tuple[int, int, int]:
        return self.forms[target], self.alternatives[target], self.repetitions[target]

    def _fold(self, node: int, targets: Sequence[tuple[int, int, int]]) -> None:
        names = self._walk.names
        is_list = isinstance(self._walk.values[node], list)
        forms, most, times = [], 1, 1
        for inner in self._inside[node]:
            most = max(most, self.alternatives[inner])
            times = max(times, self.repetitions[inner])
            if names[node if is_list else inner] in _IN_PLACE:
                forms.append(self.forms[inner])
        for target in targets:
            forms.append(target[0])
            most = max(most, target[1])
            times = max(times, target[2])
        self.forms[node] = _sum(forms) if is_list and names[node] in _SUMS else _product(forms)
        self.alternatives[node] = max(most, self.forms[node])
        self.repetitions[node] = min(self._walk.counts[node] * times, CAP)


def _sum(numbers: Sequence[int]) -> int:
    return max(1, min(sum(numbers), CAP))


def _product(numbers: Sequence[int]) -> int:
    product = 1
    for number in numbers:
        product = min(product * number, CAP)
    return product


def add_paths(measures: Measures, walk: Walk) -> None:
    """Adds what is measured along paths. All that gets into a circle of references counts as one chain."""
    if not walk.references and max(walk.counts, default=1) == 1 and _IN_PLACE.isdisjoint(walk.names):
        return
    targets, missing = _targets(walk)
    paths = _Paths(walk)
    paths.follow(targets)
    measures[Measure.REFERENCES] = len({uri for _, uri in walk.references}) if walk.embedded else paths.chain + missing
    for measure, found in ((Measure.ALTERNATIVES, paths.alternatives), (Measure.REPETITION, paths.repetitions)):
        if (largest := max(found, default=1)) > 1:
            measures[measure] = largest


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
