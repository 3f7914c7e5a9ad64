"""The capability map: what a backend makes of each keyword of JSON Schema, and of each pair in one schema object.

It is measured, on generated schemas. In the root of each stand the keywords in question and what they mean nothing
without, and ``type`` half of the time; subschemas hold these keywords again, or ``type``, ``const`` and ``enum``, which
every backend has: the verdict is on the keywords. A map keeps how many schemas came to which verdict; the worst of
them is what to expect.
"""

import enum
import functools
import importlib.metadata
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from packaging.requirements import Requirement

from structout.backend import BackendInfo
from structout.errors import ErrorKind
from structout.fuzz.case import Case
from structout.fuzz.child import Child, Ended
from structout.fuzz.json_cases import schema_case
from structout.fuzz.json_text import write
from structout.fuzz.keywords.table import NEEDS, generated, pairs
from structout.fuzz.shrinking import Trace
from structout.fuzz.target import Target
from structout.fuzz.writer import Writer
from structout.spec import Dialect, JsonSchema, Policy, spec_to_json

FORMAT: Final = 1
"""Version of the file's format."""
DIALECT: Final = Dialect.DRAFT_2020_12
SEED: Final = 0
SCHEMAS: Final[Mapping[int, int]] = {1: 6, 2: 3}
"""How many different schemas are tried with one keyword and with a pair; fewer where there are no more."""
VOCABULARY: Final = "bytes"
"""What is measured over: with a token for each byte it is the language alone."""
LIMIT_S: Final = 20.0
"""What compiling one schema and reading its texts may take, in seconds of wall time."""

_TRIES: Final = 6
"""Schemas that are generated at most for each that is wanted."""
_BESIDE: Final = frozenset({"type", "const", "enum"})

Keywords: TypeAlias = tuple[str, ...]
"""One keyword, or two in the order of `structout.fuzz.keywords.table.generated`."""


class Verdict(enum.StrEnum):
    """What a backend makes of a schema, from the best to the worst for whoever relies on the result.

    EXACT: it compiles it under ``Policy.EXACT``, takes every instance that was tried, written plainly (that policy is
    exact up to the serialization), and no stranger; or it finds that nothing satisfies it where nothing is known to.
    SOUND: it takes no stranger, but not every instance, or it only compiles it under a policy that lets it narrow.
    REFUSED: it compiles it under no policy. DROPPED: it takes a stranger, or it compiles it under
    ``Policy.BEST_EFFORT`` alone. DIED: the process crashed, hung or ran out of memory.
    """

    EXACT = "exact"
    SOUND = "sound"
    REFUSED = "refused"
    DROPPED = "dropped"
    DIED = "died"


@attrs.frozen
class Observation:
    """What came of one schema.

    Attributes:
        case: the schema, under the policy that the verdict is about, and its texts.
        verdict: see `Verdict`.
        over_accepted: strangers that were taken.
        rejected: instances that were not.
        message: why it was refused, or how the process died.
    """

    case: Case
    verdict: Verdict
    over_accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    message: str = ""


@attrs.frozen
class Capability:
    """What a backend makes of schemas with these keywords: the number of schemas for each verdict that was seen."""

    keywords: Keywords
    counts: Mapping[Verdict, int]

    @property
    def verdict(self) -> Verdict:
        """The worst that was seen."""
        return max(self.counts, key=list(Verdict).index)

    @property
    def is_mixed(self) -> bool:
        """Whether it depends on the schema."""
        return len(self.counts) > 1

    @property
    def name(self) -> str:
        return " + ".join(self.keywords)


@attrs.frozen
class CapabilityMap:
    """All that was measured of one backend.

    Attributes:
        backend: its id.
        library: the installed versions of the distributions that it requires.
        structout: version of this package.
        capabilities: for each keyword, then for each pair.
        dialect: of the schemas.
        seed: decides the schemas and texts.
    """

    backend: str
    library: Mapping[str, str]
    structout: str
    capabilities: tuple[Capability, ...]
    dialect: Dialect = DIALECT
    seed: int = SEED

    @classmethod
    def of(cls, info: BackendInfo, capabilities: Iterable[Capability]) -> "CapabilityMap":
        """The map of a backend that is installed."""
        names = sorted(Requirement(requirement).name for requirement in info.requires)
        library = {name: importlib.metadata.version(name) for name in names}
        return cls(info.id, library, importlib.metadata.version("structout"), tuple(capabilities))

    def differences(self, measured: Iterable[Capability]) -> Iterator[str]:
        """Where another measurement, of some of it, came out otherwise; in words."""
        known = {each.keywords: each for each in self.capabilities}
        for each in measured:
            before = known.get(each.keywords)
            if before is None or before.counts != each.counts:
                yield f"{_line(each)}, not {_line(before) if before else 'in the map'}"

    def totals(self, size: int) -> dict[Verdict, int]:
        """How many keywords (``size`` 1) or pairs (2) have each verdict."""
        counts = Counter(each.verdict for each in self.capabilities if len(each.keywords) == size)
        return {verdict: counts[verdict] for verdict in Verdict}

    def lines(self) -> Iterator[str]:
        """The totals, to be printed: how many have which verdict, the worst counting, and how many have several."""
        for size, name in ((1, "keywords"), (2, "pairs")):
            totals = self.totals(size)
            mixed = sum(each.is_mixed for each in self.capabilities if len(each.keywords) == size)
            figures = ", ".join(f"{count} {verdict.value}" for verdict, count in totals.items() if count)
            yield f"{self.backend}: {sum(totals.values())} {name}: {figures}; {mixed} depending on the schema"

    def write(self, file: Path) -> None:
        """Writes it as JSON, a line for each keyword and pair."""
        head = {
            "format": FORMAT,
            "backend": self.backend,
            "library": dict(self.library),
            "structout": self.structout,
            "dialect": str(self.dialect),
            "seed": self.seed,
        }
        members = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        for size, name in ((1, "keywords"), (2, "pairs")):
            entries = ",\n".join(_line(each) for each in self.capabilities if len(each.keywords) == size)
            members.append(f"{json.dumps(name)}: {{\n{entries}\n}}")
        file.write_text("{\n" + ",\n".join(members) + "\n}\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> "CapabilityMap":
        """The map of a file.

        Raises:
            OSError: it cannot be read.
            ValueError, KeyError, TypeError, AttributeError: it is no capability map, or one of another format.
        """
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"{file} has format {data['format']}; this version reads format {FORMAT}")
        entries = data["keywords"] | data["pairs"]
        return cls(
            backend=data["backend"],
            library=data["library"],
            structout=data["structout"],
            capabilities=tuple(
                Capability(tuple(name.split(" + ")), {Verdict(verdict): count for verdict, count in counts.items()})
                for name, counts in entries.items()
            ),
            dialect=Dialect(data["dialect"]),
            seed=data["seed"],
        )


def _line(capability: Capability) -> str:
    counts = {verdict.value: capability.counts[verdict] for verdict in Verdict if verdict in capability.counts}
    return f"{json.dumps(capability.name)}: {json.dumps(counts)}"


def everything() -> list[Keywords]:
    """All keywords, then all pairs of them that can mean something together."""
    return [*((name,) for name in generated(DIALECT)), *pairs(DIALECT)]


def measure(child: Child, which: Iterable[Keywords]) -> Iterator[Capability]:
    """What a backend makes of these keywords and pairs, one after the other, which may take seconds each.

    Args:
        child: the backend, on `VOCABULARY`.

    Raises:
        ChildError: the backend cannot be loaded.
    """
    for keywords in which:
        counts = Counter(observe(child, case).verdict for case in examples(keywords))
        yield Capability(keywords, dict(counts))


def measured_map(target: Target) -> CapabilityMap:
    """The whole map of a backend, which takes minutes.

    Raises:
        UnwrapError: there is no such backend.
        ChildError: it cannot be loaded.
    """
    info = target.find().unwrap().info
    with Child(target, vocabulary=VOCABULARY) as child:
        return CapabilityMap.of(info, measure(child, everything()))


@functools.cache
def examples(keywords: Keywords) -> tuple[Case, ...]:
    """The cases for one keyword or a pair: different schemas, with instances as long as some have any."""
    count = SCHEMAS[len(keywords)]
    cases: dict[str, Case] = {}
    for number in range(_TRIES * count):
        case = _example(keywords, number)
        cases.setdefault(_schema(case), case)
        if sum(bool(each.members) for each in cases.values()) == count:
            break
    return tuple(sorted(cases.values(), key=lambda each: not each.members)[:count])


def _example(keywords: Keywords, number: int) -> Case:
    allowed = _BESIDE.union(keywords, *(NEEDS.get(keyword, ()) for keyword in keywords))
    choices = Trace(rest=random.Random(f"{SEED} {' '.join(keywords)} {number}"))
    schema = Writer(choices, DIALECT, allowed).together(keywords, depth=1)
    case = schema_case(JsonSchema(write(schema), dialect=DIALECT), number).unwrap()
    return attrs.evolve(case, members=tuple(text for text in case.members if text.note == "plain"))


def _schema(case: Case) -> str:
    assert isinstance(case.spec, JsonSchema)
    return case.spec.text


def observe(child: Child, case: Case) -> Observation:
    """What a backend makes of one case; the strictest policy under which it compiles the schema decides."""
    observation = Observation(case, Verdict.REFUSED)
    for policy in (Policy.EXACT, Policy.SOUND, Policy.BEST_EFFORT):
        spec = attrs.evolve(case.spec, policy=policy)
        observation = _under(child, attrs.evolve(case, spec=spec))
        if observation.verdict is not Verdict.REFUSED:
            break
    return observation


def _under(child: Child, case: Case) -> Observation:
    texts = [*case.members, *case.strangers]
    job = {"do": "accepts", "spec": spec_to_json(case.spec), "texts": [text.text for text in texts]}
    try:
        answer = child.run(job, limit_s=LIMIT_S)
    except Ended as exc:
        return Observation(case, Verdict.DIED, message=exc.violation.message)
    if error := answer.get("error"):
        is_right = error["kind"] == ErrorKind.UNSATISFIABLE and not case.members
        return Observation(case, Verdict.EXACT if is_right else Verdict.REFUSED, message=error["message"])
    taken = dict(zip(texts, answer["accepted"], strict=True))
    over = tuple(text.text for text in case.strangers if taken[text])
    rejected = tuple(text.text for text in case.members if not taken[text])
    return Observation(case, _verdict(case, over, rejected), over, rejected)


def _verdict(case: Case, over: tuple[str, ...], rejected: tuple[str, ...]) -> Verdict:
    assert isinstance(case.spec, JsonSchema)
    if over or case.spec.policy is Policy.BEST_EFFORT:
        return Verdict.DROPPED
    return Verdict.SOUND if rejected or case.spec.policy is Policy.SOUND else Verdict.EXACT
