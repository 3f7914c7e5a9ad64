"""``structout bench compile``: structout's compile service, beside the backends called directly.

What is timed goes from a schema's text to a sequence that can start: libraries differ in what of it they put off. Plain
schemas are timed by process time, risky ones by the clock: the sandbox tries them in a process of its own.
"""

import itertools
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import Any, Final, TypeAlias

import attrs

from structout.cli.bench import machine, recording, report, timing
from structout.cli.bench.peers import PEERS, Compile
from structout.cli.bench.report import BenchError
from structout.cli.bench.timing import Figure
from structout.compile import CompileService
from structout.compile.risk import RiskClass, bounds_for, risk_of
from structout.compile.sandbox import Sandbox
from structout.discovery import discover
from structout.processes.usage import share_freed_memory
from structout.result import Ok
from structout.spec import JsonSchema
from structout.vocabulary import Vocabulary

PEER: Final = "the backend alone"
UNIT: Final = "microseconds from a schema to a sequence: process time, by the clock with the sandbox"
TEXTS: Final = ("fresh", "repeated")

Schema: TypeAlias = dict[str, Any]
RISKY: Final = recording.object_schema(article={"enum": [f"article {number}" for number in range(5000)]})
"""A schema that is compiled only once the sandbox has tried it, whatever the backend."""


@attrs.frozen
class Case:
    """What schemas have in common whose figures are told together.

    Attributes:
        backend: its id.
        way: whether structout compiles in this process, or tries in the sandbox first.
        text: "fresh" is a text that was never seen before, "repeated" always the same.
    """

    backend: str
    way: str
    text: str


def run(schemas: Path | None, vocabulary: str, options: report.Options) -> int:
    """Prints the figures. Returns the exit code."""
    try:
        report.check_plot(options.plot)
        texts = _own() if schemas is None else read(schemas)
        seconds = 30.0 if options.quick else 200.0
        figures = measure(recording.vocabulary_of(vocabulary), texts, seconds=seconds)
    except BenchError as exc:
        return report.failed(exc, options)
    report.show("compile", machine.describe("threads as each library takes them"), figures, options, unit=UNIT)
    return 0


def _own() -> list[Schema]:
    return [*(schema for schema, _ in recording.DOCUMENTS), RISKY]


def read(path: Path) -> list[Schema]:
    """The schemas of a file: one in each line, or an object with one under ``schema``. Raises BenchError."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as exc:
        raise BenchError(f"{path} cannot be read: {exc}", "name a file with a JSON Schema in each line") from exc
    schemas = [line.get("schema", line) if isinstance(line, dict) else line for line in lines]
    found = [schema for schema in schemas if isinstance(schema, dict)]
    if not found:
        raise BenchError(f"{path} has no schemas", "name a file with a JSON Schema, an object, in each line")
    return found


def measure(vocabulary: Vocabulary, schemas: Sequence[Schema], *, seconds: float) -> list[Figure]:
    """Compares each backend that is installed on each schema that it takes, as structout and alone.

    Each schema and time gets its share of ``seconds``, three rounds at least. A figure is of all schemas of its case:
    the medians of their medians, and the median of their ratios.

    Raises:
        BenchError: no backend is installed, or none takes any of the schemas.
    """
    share_freed_memory()  # as whoever serves does
    registry = discover()
    sandbox = Sandbox(registry, vocabulary, workers=1, warm=list(PEERS))
    sandbox.wait_until_full()
    service = CompileService(registry, vocabulary, sandbox=sandbox)
    try:
        peers = {name: peer(vocabulary) for name, peer in PEERS.items() if isinstance(service.backend(name), Ok)}
        if not peers:
            raise BenchError(f"none of {', '.join(PEERS)} is installed", "pip install 'structout[llguidance,xgrammar]'")
        taken = [
            (name, peer, schema)
            for name, peer in peers.items()
            for schema in schemas
            if _takes(service, name, peer, schema)
        ]
        found: dict[Case, list[Figure]] = defaultdict(list)
        with timing.no_collection():
            for name, peer, schema in taken:
                for text in TEXTS:
                    case = _case(schema, name, text)
                    found[case].append(_compare(service, case, peer, schema, seconds / len(taken) / len(TEXTS)))
    finally:
        service.close()
        sandbox.close()
    if not found:
        raise BenchError("no backend takes any of the schemas", "see structout check for the reasons")
    return [_of_all(case, figures) for case, figures in found.items()]


def _takes(service: CompileService, backend: str, peer: Compile, schema: Schema) -> bool:
    """Whether structout and the backend alone both take a schema."""
    text = json.dumps(schema)
    try:
        peer(text)()
    except Exception:  # each library raises its own
        return False
    return isinstance(service.compile(JsonSchema(text), backend=backend), Ok)


def _case(schema: Schema, backend: str, text: str) -> Case:
    risk = risk_of(JsonSchema(json.dumps(schema)), bounds_for(backend))
    return Case(backend, "in process" if risk.risk_class is RiskClass.PLAIN else "by the sandbox", text)


def _compare(service: CompileService, case: Case, peer: Compile, schema: Schema, seconds: float) -> Figure:
    """One schema, in texts that are fresh or in one that is repeated."""
    stops = service.vocabulary.eos_token_ids
    texts = _fresh(schema) if case.text == "fresh" else itertools.repeat(json.dumps(schema))

    def own(_number: int) -> Callable[[], object]:
        spec = JsonSchema(next(texts))
        return lambda: service.compile(spec, backend=case.backend).unwrap().start(stop_token_ids=stops).unwrap()

    def alone(_number: int) -> Callable[[], object]:
        schema = next(texts)
        return lambda: peer(schema)()

    ways = {timing.OWN: own, PEER: alone}
    clock = process_time_ns if case.way == "in process" else perf_counter_ns
    [figure] = timing.compare({}, ways, calls=1, rows=1, seconds=seconds, clock=clock)
    return figure


def _fresh(schema: Schema) -> Iterator[str]:
    """The schema in texts that nobody has seen."""
    for number in itertools.count():
        yield json.dumps({**schema, "$comment": f"text {number}"})


def _of_all(case: Case, figures: Sequence[Figure]) -> Figure:
    return Figure(
        case={**attrs.asdict(case), "schemas": len(figures)},
        own_us=statistics.median(each.own_us for each in figures),
        peer=PEER,
        peer_us=statistics.median(each.peer_us for each in figures),
        ratio=statistics.median(each.ratio for each in figures),
        rounds=min(each.rounds for each in figures),
    )
