"""Specs as xgrammar takes them, and why it does not: all that can be known without it."""

from collections.abc import Sequence
from typing import TypeVar

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.grammar import refusal_of
from structout.result import Err, Ok, Result
from structout.schema import check_schema
from structout.spec import Choice, Ebnf, GrammarSpec, JsonObject, JsonSchema, Lark, Policy, Regex, StructuralTag
from structout_xgrammar.automaton import automaton
from structout_xgrammar.ebnf import choice, rules
from structout_xgrammar.errors import BACKEND
from structout_xgrammar.grammars import ebnf_findings, lark_findings
from structout_xgrammar.patterns import Fault, read
from structout_xgrammar.schemas import translate_object, translate_schema, unenforced
from structout_xgrammar.sources import EbnfSource, LarkSource, Translation
from structout_xgrammar.tags import translate_tag

_T = TypeVar("_T")


def refusal(spec: GrammarSpec) -> GrammarError | None:
    """Why a spec is refused, as far as the tables tell; None if it may be taken. See `BackendInfo.refusal`."""
    match _quickly_found(spec):
        case Err(error):
            return error
        case Ok(found):
            return refused(spec, found)


def _quickly_found(spec: GrammarSpec) -> Result[tuple[Finding, ...], GrammarError]:
    """What is not enforced, without the automata of patterns, which may take long."""
    match spec:
        case JsonSchema():
            invalid = check_schema(spec)
            return Err(invalid) if invalid else unenforced(spec)
        case Regex(pattern=pattern):
            return _or_bad_pattern(read(pattern)).map(lambda _tree: ())
        case _:
            return translate(spec).map(lambda translation: translation.unenforced)


def translate(spec: GrammarSpec) -> Result[Translation, GrammarError]:
    """What xgrammar gets for a spec. Whether its policy allows what is not enforced is not looked at."""
    match spec:
        case JsonSchema():
            return translate_schema(spec)
        case JsonObject():
            return Ok(translate_object(spec))
        case Regex(pattern=pattern):
            machine = _or_bad_pattern(read(pattern).and_then(automaton))
            return machine.map(lambda machine: Translation(EbnfSource(rules(machine, "root"))))
        case Ebnf(text=text, root=root):
            return _readable(text, Translation(EbnfSource(text, root), tuple(ebnf_findings(text))))
        case Lark(text=text):
            return _readable(text, Translation(LarkSource(text), tuple(lark_findings(text))))
        case Choice(options=options):
            return _translate_choice(options)
        case StructuralTag():
            return translate_tag(spec)


def refused(spec: GrammarSpec, unenforced: Sequence[Finding]) -> GrammarError | None:
    """The refusal of a spec of which this is not enforced, if its policy does not allow that."""
    return refusal_of(unenforced, spec.policy) if unenforced and spec.policy is not Policy.BEST_EFFORT else None


def _or_bad_pattern(result: Result[_T, Fault]) -> Result[_T, GrammarError]:
    match result:
        case Ok() as found:
            return found
        case Err(fault):
            message = f"The regular expression cannot be had: {fault.message}."
            return Err(GrammarError(kind=fault.kind, message=message, offset=fault.offset, backend=BACKEND))


def _translate_choice(options: tuple[str, ...]) -> Result[Translation, GrammarError]:
    if not options:
        return Err(_invalid("A choice has at least one option.", keyword="choice"))
    return _readable("".join(options), Translation(EbnfSource(choice(dict.fromkeys(options)))))


def _readable(text: str, translation: Translation) -> Result[Translation, GrammarError]:
    """The translation of a text that xgrammar can read: it stops at a NUL and says nothing, and reads UTF-8."""
    if (offset := text.find("\0")) >= 0:
        hint = "leave it out, or name another backend"
        message = "xgrammar cannot read the NUL character in it."
        return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, offset=offset, hint=hint, backend=BACKEND))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return Err(_invalid("There is half a surrogate pair in it.", offset=error.start))
    return Ok(translation)


def _invalid(message: str, *, keyword: str | None = None, offset: int | None = None) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=keyword, offset=offset, backend=BACKEND)
