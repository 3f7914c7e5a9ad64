"""Does valid JSON come out of a real model? ``python benchmarks/validity.py --corpus sample.jsonl.gz``

For each backend: schemas are drawn from the corpus in an order that the seed decides, those that the backend accepts
are kept (the accepted share is printed), and the packaged SmolLM2 answers each at temperature 1. Every output that
finished is judged by the reference validator. The same schemas are then given to the backend called directly, without
its plugin (`benchmarks.direct`), on the same engine with the same random numbers. Where the masks are the same, so are
the texts, but only with ``--rows 1``: the last bits of a forward pass depend on which sequences share it.

The corpus is a file of JSON lines, gzipped if it is called so, ``{"name", "schema", ...}``.
"""

import gzip
import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer
from rich.progress import track

from benchmarks.direct import DirectPlugin
from engine_adapter.embedded.engine import run
from engine_adapter.embedded.local import Local, open_local
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Finished, FinishReason, Terminal
from engine_adapter.sampling import SamplingParams
from structout import JsonSchema, Ok, parsing
from structout.discovery import discover
from structout.schema import reference_validator

DEFAULT_CORPUS = Path(os.environ.get("STRUCTOUT_CORPORA", "../shared"), "corpora/maskbench/sample.jsonl.gz")
BACKENDS = ("xgrammar", "llguidance", "outlines")
PROMPT = (
    "Write one short JSON document for this JSON Schema, with short values, and stop when it is complete:\n{schema}"
)
"""Asks for a short document: where a schema leaves objects open, a small model invents members without end."""


@attrs.frozen
class Tally:
    """What came of one backend's generations.

    Attributes:
        asked: schemas that were tried to find those that the backend accepts.
        accepted: those that it accepted; one generation each.
        finished: outputs that ended with a complete grammar.
        invalid: finished outputs that the reference validator rejects.
        failed: requests that ended with an error.
        examples: name and text of the first invalid ones.
    """

    backend: str
    asked: int
    accepted: int
    finished: int
    invalid: int
    failed: int
    examples: tuple[tuple[str, str], ...] = ()

    def line(self) -> str:
        share = self.accepted / max(1, self.asked)
        finished = self.finished / max(1, self.accepted)
        return (
            f"{self.backend}: accepted {self.accepted} of {self.asked} schemas ({share:.1%}); finished {self.finished} "
            f"({finished:.1%}), of these invalid {self.invalid}; failed {self.failed}"
        )


def schemas(corpus: Path, seed: int) -> Iterator[tuple[str, JsonSchema]]:
    """The corpus in an order that the seed decides; what is no schema for any backend is left out."""
    opened = gzip.open if corpus.suffix == ".gz" else open
    with opened(corpus, "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(entries)
    for entry in entries:
        if isinstance(parsed := parsing.json_schema(entry["schema"]), Ok):
            yield entry["name"], parsed.value


def accepted(
    local: Local, backend: str, specs: Iterator[tuple[str, JsonSchema]], count: int
) -> tuple[list[tuple[str, JsonSchema]], int]:
    """The first ``count`` specs that a backend compiles, and how many were asked."""
    kept: list[tuple[str, JsonSchema]] = []
    asked = 0
    for name, spec in specs:
        asked += 1
        if isinstance(local.service.compile(spec, backend=backend), Ok):
            kept.append((name, spec))
        if len(kept) == count:
            break
    return kept, asked


def generate(
    local: Local, backend: str, specs: Sequence[tuple[str, JsonSchema]], *, seed: int, max_tokens: int
) -> list[Terminal]:
    """One generation at temperature 1 for each spec, in order."""
    requests = [
        Request(
            id=str(index),
            prompt=local.encode_turn(PROMPT.format(schema=spec.text[:300]))[:512],
            max_tokens=max_tokens,
            sampling=SamplingParams(temperature=1.0, seed=seed + index),
            spec=spec,
            backend=backend,
            deadline_s=600.0,
        )
        for index, (_, spec) in enumerate(specs)
    ]
    ends: dict[str, Terminal] = {}
    with_end = (event for event in run(local.engine, requests) if not isinstance(event.outcome, Delta))
    for event in track(with_end, description=backend, total=len(requests), transient=True):
        ends[event.request_id] = event.outcome  # type: ignore[assignment]
    return [ends[request.id] for request in requests]


def tally(backend: str, asked: int, specs: Sequence[tuple[str, JsonSchema]], ends: Sequence[Terminal]) -> Tally:
    """Judges every output that finished with a complete grammar."""
    texts = [
        (name, spec, end.text)
        for (name, spec), end in zip(specs, ends, strict=True)
        if isinstance(end, Finished) and end.reason is FinishReason.STOP
    ]
    invalid = [(name, text) for name, spec, text in texts if not reference_validator(spec).unwrap().is_valid(text)]
    return Tally(
        backend=backend,
        asked=asked,
        accepted=len(specs),
        finished=len(texts),
        invalid=len(invalid),
        failed=sum(not isinstance(end, Finished) for end in ends),
        examples=tuple(invalid[:5]),
    )


def measure(
    local: Local, corpus: Path, backend: str, *, generations: int, seed: int, max_tokens: int, direct: bool
) -> list[Tally]:
    """The backend's tally; with ``direct`` also that of the library called directly on the same schemas."""
    specs, asked = accepted(local, backend, schemas(corpus, seed), generations)
    ends = generate(local, backend, specs, seed=seed, max_tokens=max_tokens)
    tallies = [tally(backend, asked, specs, ends)]
    if direct:
        peer = f"{backend}_direct"
        ends = generate(local, peer, specs, seed=seed, max_tokens=max_tokens)
        tallies.append(tally(peer, len(specs), specs, ends))
    return tallies


def main(
    corpus: Annotated[Path, typer.Option(help="JSON lines of schemas, gzipped or not.")] = DEFAULT_CORPUS,
    backend: Annotated[list[str], typer.Option(help="Backends to measure.")] = list(BACKENDS),  # noqa: B006
    generations: int = 200,
    seed: int = 7,
    max_tokens: int = 400,
    rows: Annotated[int, typer.Option(help="Sequences that run at once.")] = 32,
    direct: Annotated[bool, typer.Option(help="Also call each backend directly.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Counts finished and invalid outputs of a real model, backend by backend."""
    local = open_local("smollm2", max_rows=rows, max_len=1024, registry=discover(plugins={"direct": DirectPlugin()}))
    report: dict[str, Any] = {"seed": seed, "max_tokens": max_tokens, "tallies": []}
    for each in backend:
        for result in measure(
            local, corpus, each, generations=generations, seed=seed, max_tokens=max_tokens, direct=direct
        ):
            report["tallies"].append(attrs.asdict(result))
            if not as_json:
                print(result.line(), flush=True)
                for name, text in result.examples:
                    print(f"  invalid: {name}: {text[:200]}")
    local.close()
    if as_json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    typer.run(main)
