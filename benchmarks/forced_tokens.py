"""How many tokens need no sampling: ``python -m benchmarks.forced_tokens FILE.jsonl[.gz] [--backend ID] [--json]``.

The file has a JSON object on each line: a ``schema``, and ``tests`` with the ``data`` of instances and whether each is
``valid`` (as MaskBench has). For each schema, the text of its first valid instance is gone through token by token, as
a model would write it with fixed separators (``", "`` and ``": "``); wherever the grammar forces what follows, the
forced tokens are taken and not sampled. Printed are the part of all sampling steps that this saves, the one of the stop
token included, and how many forced tokens are not those that the tokenizer has for the whole text.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from benchmarks.output import show
from engine_adapter.embedded.forcing import AT_ONCE
from engine_adapter.embedded.pretrained import packaged_folder
from structout import Err, Ok, Status
from structout.constraint import Constraint
from structout.discovery import discover
from structout.grammar import BoundBackend
from structout.spec import JsonSchema, Policy, Serialization, Whitespace
from structout.vocabularies import CanonicalTokens, from_huggingface


@attrs.define
class Counts:
    """What was found in all texts.

    Attributes:
        texts: how many there were.
        steps: how many tokens they have, a stop token each included.
        forced: how many of these were forced.
        not_canonical: how many tokens were forced where the text has another.
    """

    texts: int = 0
    steps: int = 0
    forced: int = 0
    not_canonical: int = 0

    def add(self, constraint: Constraint, canonical: CanonicalTokens, text: str) -> None:
        """Goes through one text; nothing is counted of one that the grammar does not take."""
        tokens = canonical.encode(text)
        taken = forced = not_canonical = 0
        while taken < len(tokens):
            found = canonical.after(tokens[:taken], constraint.forced_text(AT_ONCE))
            same = next(
                (n for n, pair in enumerate(zip(found, tokens[taken:], strict=False)) if pair[0] != pair[1]), len(found)
            )
            not_canonical += len(found) - same
            forced += same
            for token in tokens[taken : taken + max(same, 1)]:
                if constraint.accept(token) is not Status.OK:
                    return
            taken += max(same, 1)
        self.texts += 1
        self.steps += len(tokens) + 1
        self.forced += forced
        self.not_canonical += not_canonical


def labelled(file: Path) -> Iterator[tuple[str, Any]]:
    """Each schema that has a valid instance, as text, and the first such instance."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            valid = [test["data"] for test in case["tests"] if test["valid"]]
            if valid:
                yield json.dumps(case["schema"]), valid[0]


def counted(backend: BoundBackend, canonical: CanonicalTokens, cases: Iterator[tuple[str, Any]], texts: int) -> Counts:
    """What is forced in the first so many texts that the backend's grammars take."""
    counts = Counts()
    for schema, instance in cases:
        spec = JsonSchema(schema, serialization=Serialization(whitespace=Whitespace.SPACED), policy=Policy.SOUND)
        match backend.compile(spec).and_then(lambda grammar: grammar.start()):
            case Ok(constraint):
                counts.add(constraint, canonical, json.dumps(instance, ensure_ascii=False))
            case Err():
                pass
        if counts.texts == texts:
            break
    return counts


def main(
    file: Path,
    backend: str = "xgrammar",
    texts: Annotated[int, typer.Option(min=1, help="How many texts.")] = 100,
    every: Annotated[int, typer.Option(min=1, help="Takes each n-th schema of the file.")] = 1,
    *,
    json: bool = False,
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(packaged_folder())
    vocabulary = from_huggingface(tokenizer)
    registered = discover().find(backend).unwrap()
    bound = BoundBackend.create(registered.info, registered.distribution, vocabulary).unwrap()
    cases = (case for number, case in enumerate(labelled(file)) if number % every == 0)
    counts = counted(bound, CanonicalTokens(tokenizer, vocabulary), cases, texts)
    show({**attrs.asdict(counts), "saved": round(counts.forced / counts.steps, 4)}, as_json=json)


if __name__ == "__main__":
    typer.run(main)
