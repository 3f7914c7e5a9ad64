"""Records the masks of real generations: ``python -m benchmarks.record_masks masks.npz [--schemas FILE]``

The packaged SmolLM2 answers JSON Schemas on the embedded engine, each at temperature 1; then each answer's tokens lead
a fresh constraint of the same grammar through the same masks, which are written down. Without ``--schemas`` they are
those of `structout bench`, again and again; a file has a JSON object ``{"name", "schema"}`` a line, gzipped or not.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.mask_sequences import MaskSequences
from benchmarks.output import show
from benchmarks.validity import accepted, generate, schemas
from engine_adapter.embedded.local import Local, open_local
from engine_adapter.outcome import Finished, FinishReason, Terminal
from structout.backend import Status
from structout.cli.bench.recording import DOCUMENTS
from structout.constraint import Constraint
from structout.spec import JsonSchema


def own_schemas() -> Iterator[tuple[str, JsonSchema]]:
    """Those of `structout bench`, for ever."""
    for number, (schema, _) in itertools.cycle(enumerate(DOCUMENTS)):
        yield str(number), JsonSchema(json.dumps(schema))


def walk(constraint: Constraint, end: Finished) -> Iterator[bytes]:
    """The words of the mask of each step of a generation, that of its stop token included."""
    row = np.empty(constraint.grammar.vocabulary.bitmask_width, np.int32)
    for token in end.token_ids:
        if constraint.fill(row) is not Status.OK:
            return
        yield row.tobytes()
        if constraint.accept(token) is not Status.OK:
            return
    if end.reason is FinishReason.STOP and constraint.fill(row) is Status.OK:
        yield row.tobytes()


def masks_of(
    local: Local, backend: str, specs: Sequence[tuple[str, JsonSchema]], ends: Sequence[Terminal]
) -> Iterator[Iterator[bytes]]:
    """The masks of each generation that finished."""
    for (_, spec), end in zip(specs, ends, strict=True):
        if isinstance(end, Finished):
            grammar = local.service.compile(spec, backend=backend).unwrap()
            yield walk(grammar.start(stop_token_ids=local.vocabulary.eos_token_ids).unwrap(), end)


def record(
    local: Local,
    backend: str,
    corpus: Path | None = None,
    *,
    generations: int,
    seed: int,
    max_tokens: int,
) -> MaskSequences:
    """Has the model answer so many schemas that the backend takes, if there are as many."""
    specs, _ = accepted(local, backend, own_schemas() if corpus is None else schemas(corpus, seed), generations)
    ends = generate(local, backend, specs, seed=seed, max_tokens=max_tokens)
    return MaskSequences.of(local.vocabulary.padded_size, masks_of(local, backend, specs, ends))


def main(
    file: Annotated[Path, typer.Argument(help="The .npz to write.")],
    schemas: Annotated[Path | None, typer.Option(help="JSON lines of schemas, gzipped or not.")] = None,
    backend: Annotated[str, typer.Option(help="Whose masks.")] = "xgrammar",
    generations: Annotated[int, typer.Option(min=1)] = 300,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a generation.")] = 200,
    rows: Annotated[int, typer.Option(min=1, help="Sequences that run at once.")] = 32,
    seed: int = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Writes a file of mask sequences, and says how many there are."""
    local = open_local("smollm2", max_rows=rows, max_len=1024)
    try:
        found = record(local, backend, schemas, generations=generations, seed=seed, max_tokens=max_tokens)
    finally:
        local.close()
    found.save(file)
    show(
        {"generations": len(found.ends), "steps": len(found.steps), "distinct masks": len(found.masks)},
        as_json=as_json,
    )


if __name__ == "__main__":
    typer.run(main)
