"""``structout generate``: one prompt, one constraint, some answers."""

import csv
import json
import time
from pathlib import Path
from typing import Any, Final

import attrs
from rich.console import Console

from engine_adapter.embedded.engine import run as run_requests
from engine_adapter.embedded.local import Local, open_local
from engine_adapter.embedded.pretrained import ModelLoadError
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, Terminal
from engine_adapter.sampling import SamplingParams
from structout import parsing
from structout.cli.output import error_json, load_error, loading_bar, print_error
from structout.errors import ErrorKind, GrammarError
from structout.grammar import Grammar
from structout.result import Err, Ok, Result
from structout.schema import reference_validator
from structout.spec import GrammarSpec, JsonSchema, Policy
from structout.vocabulary import VocabularyError

CONSTRAINTS: Final = ("schema", "regex", "choice", "ebnf", "lark")
MAX_ANSWERS: Final = 1024


@attrs.frozen(kw_only=True)
class Options:
    """The command's options; at most one of the constraints is set."""

    prompt: str
    schema: Path | None = None
    regex: str | None = None
    choice: str | None = None
    ebnf: Path | None = None
    lark: Path | None = None
    model: str = "smollm2"
    backend: str | None = None
    best_effort: bool = False
    n: int = 1
    seed: int | None = None
    temperature: float = 1.0
    max_tokens: int = 256


@attrs.frozen
class Answers:
    """What came of a run: each answer's text and end, in order."""

    texts: tuple[str, ...]
    ends: tuple[Terminal, ...]
    first_token_s: float | None


def run(options: Options, *, as_json: bool) -> int:
    """Generates and prints. Returns the exit code: 0, 2 for the caller's fault, 1 for ours."""
    match _checked(options):
        case Err(error):
            return print_error(error, as_json=as_json)
        case Ok((spec, sampling)):
            pass
    started = time.perf_counter()
    try:
        with loading_bar() as progress:
            local = open_local(options.model, max_rows=min(options.n, 32), progress=progress)
    except (ModelLoadError, VocabularyError) as exc:
        return print_error(load_error(exc), as_json=as_json)
    try:
        return _answer(local, options, spec, sampling, {"load": time.perf_counter() - started}, as_json=as_json)
    finally:
        local.close()


def _checked(options: Options) -> Result[tuple[GrammarSpec | None, SamplingParams], GrammarError]:
    if not 1 <= options.n <= MAX_ANSWERS:
        return Err(_invalid(f"--n is {options.n}; it has to be from 1 to {MAX_ANSWERS}", "n"))
    match _spec(options), SamplingParams.parse(temperature=options.temperature, seed=options.seed):
        case (Err() as failed, _) | (_, Err() as failed):
            return failed
        case Ok(spec), Ok(sampling):
            return Ok((spec, sampling))
    raise AssertionError("a result is Ok or Err")


def _spec(options: Options) -> Result[GrammarSpec | None, GrammarError]:
    """The one constraint among the options, if there is one."""
    policy = Policy.BEST_EFFORT if options.best_effort else Policy.SOUND
    given = [name for name in CONSTRAINTS if getattr(options, name) is not None]
    match given:
        case []:
            return Ok(None)
        case ["choice"]:
            [choices] = csv.reader([options.choice or ""], skipinitialspace=True)
            return parsing.choice(choices, policy=policy)
        case ["regex"]:
            return parsing.regex(options.regex, policy=policy)
        case ["schema"]:
            return _read(options.schema).and_then(lambda text: parsing.json_schema(text, policy=policy))
        case ["ebnf"]:
            return _read(options.ebnf).and_then(lambda text: parsing.ebnf(text, policy=policy))
        case ["lark"]:
            return _read(options.lark).and_then(lambda text: parsing.lark(text, policy=policy))
        case _:
            names = " and ".join(f"--{name}" for name in given)
            return Err(_invalid(f"{names} are given; an answer has one constraint at most", given[1]))


def _read(path: Path | None) -> Result[str, GrammarError]:
    assert path is not None, "called for an option that is given"
    try:
        return Ok(path.read_text(encoding="utf-8"))
    except OSError as exc:
        return Err(_invalid(f"{path} cannot be read: {exc.strerror}", str(path)))
    except UnicodeDecodeError as exc:
        return Err(_invalid(f"{path} is not UTF-8 at byte {exc.start}", str(path)))


def _answer(
    local: Local,
    options: Options,
    spec: GrammarSpec | None,
    sampling: SamplingParams,
    timings: dict[str, float],
    *,
    as_json: bool,
) -> int:
    grammar: Grammar | None = None
    started = time.perf_counter()
    if spec is not None:
        match local.service.compile(spec, backend=options.backend):
            case Err(error):
                return print_error(error, as_json=as_json)
            case Ok(compiled):
                grammar = compiled
    timings["compile"] = time.perf_counter() - started
    started = time.perf_counter()
    answers = _generate(local, _requests(local, options, spec, sampling))
    timings["first_token"] = answers.first_token_s or 0.0
    timings["generate"] = time.perf_counter() - started
    errors = [end.error for end in answers.ends if isinstance(end, Failed)]
    if len(errors) == len(answers.ends):
        return print_error(errors[0], as_json=as_json)
    report = _report(answers, spec, grammar, timings)
    print(json.dumps(report)) if as_json else _print(report, grammar)
    return errors[0].consequence.exit_code if errors else 0


def _requests(local: Local, options: Options, spec: GrammarSpec | None, sampling: SamplingParams) -> list[Request]:
    """One request for each answer, with seeds in a row from the one given."""
    prompt = local.encode_turn(options.prompt)
    return [
        Request(
            id=str(index),
            prompt=prompt,
            max_tokens=options.max_tokens,
            sampling=attrs.evolve(sampling, seed=None if sampling.seed is None else sampling.seed + index),
            spec=spec,
            backend=options.backend,
        )
        for index in range(options.n)
    ]


def _generate(local: Local, requests: list[Request]) -> Answers:
    texts = {request.id: "" for request in requests}
    ends: dict[str, Terminal] = {}
    started, first_token_s = time.perf_counter(), None
    for event in run_requests(local.engine, requests):
        match event.outcome:
            case Delta(text=text):
                first_token_s = first_token_s or time.perf_counter() - started
                texts[event.request_id] += text
            case end:
                ends[event.request_id] = end
    return Answers(tuple(texts.values()), tuple(ends[request.id] for request in requests), first_token_s)


def _report(
    answers: Answers, spec: GrammarSpec | None, grammar: Grammar | None, timings: dict[str, float]
) -> dict[str, Any]:
    finished = [end for end in answers.ends if isinstance(end, Finished)]
    report: dict[str, Any] = {
        "outputs": [_output(text, end, spec) for text, end in zip(answers.texts, answers.ends, strict=True)],
        "backend": grammar.backend.id if grammar else None,
        "usage": {
            "prompt_tokens": finished[0].usage.prompt_tokens,
            "completion_tokens": sum(end.usage.completion_tokens for end in finished),
        },
        "timings": {name: round(seconds, 4) for name, seconds in timings.items()},
    }
    if grammar and grammar.unenforced:
        report["unenforced"] = [attrs.asdict(finding) for finding in grammar.unenforced]
    return report


def _output(text: str, end: Terminal, spec: GrammarSpec | None) -> dict[str, Any]:
    match end:
        case Finished(reason=reason):
            return {"text": text, "finish_reason": reason.value, "valid": is_valid(text, spec)}
        case Failed(error):
            why = error.consequence.finish_reason
            return {"text": text, "finish_reason": why, "valid": is_valid(text, spec), "error": error_json(error)}
        case Aborted():
            return {"text": text, "finish_reason": "abort", "valid": is_valid(text, spec)}


def is_valid(text: str, spec: GrammarSpec | None) -> bool | None:
    """Whether the reference validator takes the text; None where there is no schema to judge by."""
    if not isinstance(spec, JsonSchema):
        return None
    return reference_validator(spec).unwrap().is_valid(text)


def _print(report: dict[str, Any], grammar: Grammar | None) -> None:
    console = Console(stderr=True)
    for output in report["outputs"]:
        print(output["text"])
        if output["finish_reason"] != "stop":
            why = output["error"]["message"] if "error" in output else "the answer ran out of tokens"
            console.print(f"  {output['finish_reason']}: {why}", style="yellow", markup=False)
        elif output["valid"] is False:
            console.print("  not valid under the schema", style="red")
    for finding in grammar.unenforced if grammar else ():
        console.print(f"  not enforced: {finding.keyword} at {finding.pointer or 'the root'}", style="yellow")


def _invalid(message: str, keyword: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=keyword)
