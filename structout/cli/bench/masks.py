"""``structout bench masks``: filling the bitmask rows of a step, beside the backends called directly."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from engine_adapter.masks import fill_rows
from structout.backend import Bitmask, Status
from structout.cli.bench import machine, recording, report, timing
from structout.cli.bench.peers import PEERS, Start, Walker
from structout.cli.bench.report import BenchError
from structout.cli.bench.timing import Figure, Way
from structout.compile import CompileService
from structout.constraint import Constraint
from structout.discovery import discover
from structout.grammar import Grammar
from structout.result import Err, Ok
from structout.spec import JsonSchema
from structout.vocabulary import Vocabulary

BATCHES: Final = (1, 8, 32)


def run(vocabulary: str, options: report.Options) -> int:
    """Prints the figures. Returns the exit code."""
    try:
        report.check_plot(options.plot)
        figures = measure(recording.vocabulary_of(vocabulary), seconds=30.0 if options.quick else 200.0)
    except BenchError as exc:
        return report.failed(exc, options)
    report.show("masks", machine.describe("threads as each library takes them"), figures, options)
    return 0


def measure(vocabulary: Vocabulary, *, seconds: float) -> list[Figure]:
    """Compares each backend that is installed. Raises BenchError where none is."""
    service = CompileService(discover(), vocabulary)
    try:
        grammars = list(_grammars(service, vocabulary))
        if not grammars:
            raise BenchError(f"none of {', '.join(PEERS)} is installed", "pip install 'structout[llguidance,xgrammar]'")
        share = seconds / len(grammars) / len(BATCHES)
        return [
            figure
            for number, grammar, start in grammars
            for batch in BATCHES
            for figure in _compare(number, grammar, start, batch, share)
        ]
    finally:
        service.close()


def _grammars(service: CompileService, vocabulary: Vocabulary) -> Iterator[tuple[int, Grammar, Start]]:
    """Each document's number, and its schema's grammar by each backend, as structout and as the peer compiles it."""
    for backend, peer in PEERS.items():
        if not isinstance(service.backend(backend), Ok):
            continue
        compile_alone = peer(vocabulary)
        for number, (schema, _) in enumerate(recording.DOCUMENTS):
            text = json.dumps(schema)
            match service.compile(JsonSchema(text), backend=backend):
                case Ok(grammar):
                    yield number, grammar, compile_alone(text)
                case Err(error):
                    raise BenchError(f"{backend} does not compile its schema: {error}", error.hint or "")


def _compare(number: int, grammar: Grammar, start: Start, batch: int, seconds: float) -> list[Figure]:
    tokens = recording.tokens_of(json.dumps(recording.DOCUMENTS[number][1]), grammar.vocabulary)
    case = {"backend": grammar.backend.id, "document": number + 1, "batch": batch}
    ways = {timing.OWN: _own(tokens, grammar, batch), "the backend alone": _peer(tokens, grammar, start, batch)}
    return timing.compare(case, ways, calls=len(tokens), rows=batch, seconds=seconds)


def _own(tokens: Sequence[int], grammar: Grammar, batch: int) -> Way:
    bitmask = _bitmask(grammar, batch)
    constraints: list[Constraint] = []

    def prepare(number: int) -> Any:
        if number == 0:
            stops = grammar.vocabulary.eos_token_ids
            constraints[:] = [grammar.start(stop_token_ids=stops).unwrap() for _ in range(batch)]
        elif any(each.accept(tokens[number - 1]) is not Status.OK for each in constraints):
            raise BenchError("structout refuses a document of a schema", "report it: that is a fault")
        return lambda: fill_rows(constraints, bitmask)

    return prepare


def _peer(tokens: Sequence[int], grammar: Grammar, start: Start, batch: int) -> Way:
    bitmask = _bitmask(grammar, batch)
    walkers: list[Walker] = []

    def fill() -> None:
        for row, walker in enumerate(walkers):
            walker.fill(bitmask, row)

    def prepare(number: int) -> Any:
        if number == 0:
            walkers[:] = [start() for _ in range(batch)]
        elif not all(walker.accept(tokens[number - 1]) for walker in walkers):
            raise BenchError("the backend refuses a document of a schema", "try another version of it")
        return fill

    return prepare


def _bitmask(grammar: Grammar, batch: int) -> Bitmask:
    return np.zeros((batch, grammar.vocabulary.bitmask_width), np.int32)
