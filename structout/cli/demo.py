"""``structout demo``: everything at once, on a small real model, and every answer judged before it is shown."""

import re
import time
from collections.abc import Sequence

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine_adapter.embedded.engine import run as run_requests
from engine_adapter.embedded.local import Local, open_local
from engine_adapter.embedded.pretrained import ModelLoadError
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Finished, Terminal
from engine_adapter.sampling import SamplingParams
from structout.cli.generate import is_valid
from structout.cli.output import loading_bar
from structout.spec import Choice, GrammarSpec, JsonSchema, Regex

PERSON = """{
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 30},
    "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "languages": {"type": "array", "items": {"enum": ["Python", "Rust", "C++"]}, "minItems": 1, "maxItems": 3}
  },
  "required": ["name", "age", "languages"],
  "additionalProperties": false
}"""
TICKET = """{
  "type": "object",
  "properties": {
    "title": {"type": "string"},
    "urgent": {"type": "boolean"}
  },
  "required": ["title", "urgent"],
  "additionalProperties": false
}"""
DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"


@attrs.frozen
class Item:
    """One request of the demo."""

    title: str
    prompt: str
    spec: GrammarSpec | None = None
    backend: str | None = None
    expects_failure: bool = False


ITEMS: Sequence[Item] = (
    Item("JSON Schema", "Describe an invented programmer as JSON.", JsonSchema(PERSON), "llguidance"),
    Item("JSON Schema", "File a support ticket about a broken printer, as JSON.", JsonSchema(TICKET), "xgrammar"),
    Item("regex", "On which day did people first walk on the moon?", Regex(DATE), "outlines"),
    Item("choice", "Is the Atlantic an ocean? Answer yes or no.", Choice(("yes", "no")), "xgrammar"),
    Item("choice", "Which colour has the sky?", Choice(("red", "green", "blue"))),
    Item("free text", "Say hello in one short sentence."),
    Item("a grammar that cannot compile", "Say anything.", Regex("(unclosed"), expects_failure=True),
)


def run(model: str) -> int:
    """Runs all of `ITEMS` in one batch. Returns 0 if each ended as it should, else 1."""
    console = Console()
    try:
        with loading_bar() as progress:
            local = open_local(model, max_rows=len(ITEMS), progress=progress)
    except ModelLoadError as exc:
        Console(stderr=True).print(str(exc), markup=False)
        return 1
    try:
        backends = sorted(local.service.registry.backends)
        console.print(f"One batch of {len(ITEMS)} requests on {local.loaded.name}; backends: {', '.join(backends)}.\n")
        started = time.perf_counter()
        texts, ends = _generate(local)
        seconds = time.perf_counter() - started
    finally:
        local.close()
    verdicts = [_verdict(item, text, end) for item, text, end in zip(ITEMS, texts, ends, strict=True)]
    _print_table(console, texts, verdicts)
    good = sum(good for good, _ in verdicts)
    console.print(f"\n{good} of {len(ITEMS)} requests ended as they should, in {seconds:.1f} s.")
    return 0 if good == len(ITEMS) else 1


def _generate(local: Local) -> tuple[list[str], list[Terminal]]:
    requests = [
        Request(
            id=str(index),
            prompt=local.encode_turn(item.prompt),
            max_tokens=80,
            sampling=SamplingParams(temperature=0.7, top_p=0.95, seed=index),
            spec=item.spec,
            backend=item.backend,
        )
        for index, item in enumerate(ITEMS)
    ]
    texts, ends = [""] * len(ITEMS), dict[int, Terminal]()
    for event in run_requests(local.engine, requests):
        match event.outcome:
            case Delta(text=text):
                texts[int(event.request_id)] += text
            case end:
                ends[int(event.request_id)] = end
    return texts, [ends[index] for index in range(len(ITEMS))]


def _verdict(item: Item, text: str, end: Terminal) -> tuple[bool, str]:
    """Whether a request ended as it should, and what to say of it."""
    match end:
        case Failed(error):
            return item.expects_failure, f"ended with its cause: {error}" if item.expects_failure else str(error)
        case Finished():
            right = not item.expects_failure and _satisfies(item.spec, text)
            return right, f"{'valid' if item.spec else 'ok'} ({end.reason.value})" if right else "WRONG"
        case _:
            return False, "aborted"


def _satisfies(spec: GrammarSpec | None, text: str) -> bool:
    match spec:
        case JsonSchema():
            return bool(is_valid(text, spec))
        case Regex(pattern=pattern):
            return re.fullmatch(pattern, text) is not None
        case Choice(options=options):
            return text in options
        case _:
            return bool(text)


def _print_table(console: Console, texts: Sequence[str], verdicts: Sequence[tuple[bool, str]]) -> None:
    table = Table("request", "backend", "answer", "verdict", pad_edge=False, show_lines=True)
    for item, text, (good, words) in zip(ITEMS, texts, verdicts, strict=True):
        backend = item.backend or ("first that takes it" if item.spec else "-")
        table.add_row(item.title, backend, Text(text), Text(words, style="green" if good else "bold red"))
    console.print(table)
