"""What a backend says of a spec: of what it refuses, what it does not enforce, what it leaves out, how big it is."""

import functools
import re
from collections.abc import Sequence
from typing import Final

from structout.backend import FORMS
from structout.errors import ErrorKind, GrammarError
from structout.fuzz.case import Case
from structout.fuzz.law import Law, broken
from structout.fuzz.probe import call
from structout.fuzz.trial import Trial
from structout.grammar import BoundBackend
from structout.result import Err, Ok
from structout.schema import reachable
from structout.schema.loading import load_registry, load_schema
from structout.schema.pointer import resolve
from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex, StructuralTag, spec_to_json

_INTERNALS: Final = re.compile(
    r"Traceback|0x[0-9a-fA-F]{6,}|(?:^|[\s('\"])/(?:home|usr|root|tmp|build|project|opt)/|\.(?:py|rs|cc|cpp|hpp|h):\d+"
    r"|panicked|object at |Check failed"
)


def check_refusal(error: GrammarError, case: Case) -> None:
    """That an error about a valid spec is a refusal that a caller can act on."""
    said = error.to_json()
    if error.kind is ErrorKind.UNSATISFIABLE and case.members:
        broken(Law.WRONG_REJECTION, "it calls a spec unsatisfiable that has texts", error=said)
    if error.kind is ErrorKind.BACKEND_FAILURE:
        is_out_of_memory = "MemoryError" in (error.detail or "")
        law = Law.MEMORY if is_out_of_memory else Law.RESULT_DISCIPLINE
        broken(law, f"it failed: {error.detail or error.message}")
    if error.kind in (ErrorKind.INVALID_SPEC, ErrorKind.ENGINE_FAILURE):
        broken(Law.RESULT_DISCIPLINE, f"it answers a valid spec with {error.kind.value}", error=said)
    if not error.message.strip():
        broken(Law.RESULT_DISCIPLINE, "an error has no message", error=said)
    if _INTERNALS.search(f"{error.message} {error.hint}"):
        broken(Law.RESULT_DISCIPLINE, "the message of an error shows internals", error=said)
    if error.kind is ErrorKind.UNSUPPORTED and not (error.pointer is not None or error.keyword or error.hint):
        broken(Law.RESULT_DISCIPLINE, "a refusal says neither where nor what to do", error=said)
    if isinstance(case.spec, JsonSchema) and error.pointer is not None and not _is_there(error, case.spec):
        broken(Law.RESULT_DISCIPLINE, "a refusal points to where nothing is", error=said)
    _check_offset(error, case.spec)


def _check_offset(error: GrammarError, spec: GrammarSpec) -> None:
    """That an offset, if there is one, lies in a text of the spec or right behind it."""
    longest = max(map(len, _texts(spec)), default=0)
    if error.offset is not None and not 0 <= error.offset <= longest:
        broken(Law.RESULT_DISCIPLINE, "an error's offset is outside of the text", error=error.to_json())


def _texts(spec: GrammarSpec) -> Sequence[str]:
    """The texts of a spec that an offset may count in; one inside of a JSON text is no longer than that."""
    match spec:
        case JsonSchema(text=text, registry=registry):
            return [text, *(other for _, other in registry)]
        case Ebnf(text=text) | Lark(text=text) | StructuralTag(text=text) | Regex(pattern=text):
            return [text]
        case Choice(options=options):
            return options
    return ()


def _is_there(error: GrammarError, spec: JsonSchema) -> bool:
    """Whether an error's keyword stands where its pointer leads; at the root it may be of anywhere, or no keyword."""
    if not error.pointer or error.keyword is None:
        return not error.pointer or isinstance(resolve(load_schema(spec).unwrap(), error.pointer), Ok)
    return (error.pointer, error.keyword) in _standing(spec)


def _standing(spec: JsonSchema) -> set[tuple[str, str]]:
    """Pointers and the keywords there. ``type`` may be spoken of where it is missing, and at the root every keyword."""
    nodes = list(reachable(load_schema(spec).unwrap(), spec.dialect, registry=load_registry(spec).unwrap()))
    stands = {(node.location, name) for node in nodes for name in (*node.keywords, "type")}
    return stands | {("", name) for node in nodes for name in node.keywords}


def findings_are_of_the_spec(trial: Trial) -> None:
    """Each place that a grammar lists has the keyword that it lists there; ``type`` may be listed where it is missing.

    What holds for the whole grammar is listed at the root; under ``narrowed`` that may be one of
    `structout.backend.FORMS`, which are no keywords.
    """
    grammar, spec = trial.grammar, trial.case.spec
    if not (grammar.unenforced or grammar.narrowed) or not isinstance(spec, JsonSchema):
        return
    stands = _standing(spec)
    for places, findings in ((stands, grammar.unenforced), (stands | {("", form) for form in FORMS}, grammar.narrowed)):
        for finding in findings:
            if (finding.pointer, finding.keyword) not in places:
                what = "it lists a keyword at a place where that does not stand"
                broken(Law.RESULT_DISCIPLINE, what, pointer=finding.pointer, keyword=finding.keyword)


def size_is_a_number(trial: Trial) -> None:
    """A grammar that knows how much memory it holds says it in bytes."""
    compiled: object = trial.grammar.compiled
    if not hasattr(type(compiled), "size_bytes"):
        return
    size = call("size_bytes", lambda: getattr(compiled, "size_bytes", None))
    if type(size) is not int or size < 0:
        broken(Law.RESULT_DISCIPLINE, f"size_bytes is no number of bytes but {size!r:.40}")


_MALFORMED: Final[tuple[GrammarSpec, ...]] = (
    Regex("a("),
    Regex("[z-a]"),
    Regex("*"),
    Ebnf('root ::= ("a"'),
    Ebnf("root ::= missing"),
    Lark('start: ("a"'),
    StructuralTag('{"type": "structural_tag", "format": {"type": "tag"}}'),
)
"""What is no spec of its kind."""


def malformed_specs_are_refused(trial: Trial) -> None:
    """What is no regular expression, grammar or tag is refused, as invalid or as not supported."""
    _look_at_malformed(trial.bound)


@functools.lru_cache(maxsize=16)
def _look_at_malformed(bound: BoundBackend) -> None:
    for spec in _MALFORMED:
        if spec.kind not in bound.info.spec_kinds:
            continue
        match bound.compile(spec):
            case Ok():
                broken(Law.RESULT_DISCIPLINE, "it takes what is no spec of its kind", spec=spec_to_json(spec))
            case Err(error) if error.kind not in (ErrorKind.INVALID_SPEC, ErrorKind.UNSUPPORTED):
                what = f"it answers what is no spec of its kind with {error.kind.value}"
                broken(Law.RESULT_DISCIPLINE, what, spec=spec_to_json(spec), error=error.to_json(with_detail=True))
            case Err(error):
                _check_offset(error, spec)
