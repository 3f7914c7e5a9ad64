"""Does a compiled grammar load faster than it compiles? ``python -m benchmarks.grammar_data [--json]``

Only then would it be worth keeping on a disk, or handing from process to process. Of the libraries that can write what
they compiled, each compiles specs of growing size, writes them and reads them again, on SmolLM2's vocabulary:

    compile_ms   CPU until it is compiled
    read_ms      CPU to read it again
    bytes        what has to be kept

llguidance has nothing to write: it compiles in a millisecond or two, and does the rest at the first masks.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import outlines_core
import typer
import xgrammar

from benchmarks.bounds import vocabulary
from structout.vocabulary import Vocabulary

_TIMES: Final = 3


def _schema(properties: int) -> str:
    names = [f"field_{number}" for number in range(properties)]
    tag = {"type": "array", "items": {"enum": ["a", "b"]}}
    fields = {name: {"type": "string"} if number % 2 else tag for number, name in enumerate(names)}
    return json.dumps({"type": "object", "properties": fields, "required": names, "additionalProperties": False})


def _ms(call: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time of a few calls, and what the last one returned."""
    found = []
    for _ in range(_TIMES):
        began = time.process_time()
        result = call()
        found.append(1000 * (time.process_time() - began))
    return min(found), result


def _row(
    library: str, spec: str, compile_: Callable[[], Any], write: Callable[[Any], Any], read: Any
) -> dict[str, Any]:
    compile_ms, compiled = _ms(compile_)
    data = write(compiled)
    read_ms, _ = _ms(lambda: read(data))
    return {
        "library": library,
        "spec": spec,
        "compile_ms": round(compile_ms, 2),
        "read_ms": round(read_ms, 2),
        "bytes": len(data),
    }


def _xgrammar(tokens: Vocabulary) -> Iterator[dict[str, Any]]:
    info = xgrammar.TokenizerInfo(tokens.tokens(), vocab_size=tokens.padded_size, stop_token_ids=[0])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    for properties in (1, 8, 64):
        schema = _schema(properties)
        yield _row(
            "xgrammar",
            f"{properties} properties",
            lambda schema=schema: compiler.compile_json_schema(schema),  # type: ignore[misc]
            lambda compiled: compiled.serialize_json(),
            lambda data: xgrammar.CompiledGrammar.deserialize_json(data, info),
        )


def _outlines(tokens: Vocabulary) -> Iterator[dict[str, Any]]:
    ids: dict[bytes, list[int]] = {}
    for token, text in enumerate(tokens.tokens()):
        if text:
            ids.setdefault(text, []).append(token)
    native = outlines_core.Vocabulary(0, ids)
    for letters in (4, 16, 64):
        pattern = f"[a-z]{{1,{letters}}}"
        yield _row(
            "outlines-core",
            pattern,
            lambda pattern=pattern: outlines_core.Index(pattern, native),  # type: ignore[misc]
            lambda index: bytes(index.__reduce__()[1][0]),
            outlines_core.Index.from_binary,
        )


def main(as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False) -> None:
    """Prints what compiling and reading again take."""
    tokens = vocabulary()
    for row in (*_xgrammar(tokens), *_outlines(tokens)):
        typer.echo(json.dumps(row) if as_json else "  ".join(f"{name}: {value}" for name, value in row.items()))


if __name__ == "__main__":
    typer.run(main)
