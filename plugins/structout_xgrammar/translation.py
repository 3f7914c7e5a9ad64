"""Specs as xgrammar takes them, and why it does not: all that can be known without it."""

from collections.abc import Sequence

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


def refusal(spec: GrammarSpec) -> GrammarError | None:
    """Why a spec is refused, as far as the tables tell; None if it may be taken. See `BackendInfo.refusal`."""
    if isinstance(spec, JsonSchema):
        invalid = check_schema(spec)
        found = Err(invalid) if invalid else unenforced(spec)
    else:
        found = translate(spec).map(lambda translation: translation.unenforced)
    match found:
        case Err(error):
            return error
        case Ok(findings):
            return refused(spec, findings)


def translate(spec: GrammarSpec) -> Result[Translation, GrammarError]:
    """What xgrammar gets for a spec. Whether its policy allows what is not enforced is not looked at."""
    match spec:
        case JsonSchema():
            return translate_schema(spec)
        case JsonObject():
            return Ok(translate_object(spec))
        case Regex(pattern=pattern):
            return _translate_regex(pattern)
        case Ebnf(text=text, root=root):
            return _without_nul(text, Translation(EbnfSource(text, root), tuple(ebnf_findings(text))))
        case Lark(text=text):
            return _without_nul(text, Translation(LarkSource(text), tuple(lark_findings(text))))
        case Choice(options=options):
            return _translate_choice(options)
        case StructuralTag():
            return translate_tag(spec)


def refused(spec: GrammarSpec, unenforced: Sequence[Finding]) -> GrammarError | None:
    """The refusal of a spec of which this is not enforced, if its policy does not allow that."""
    return refusal_of(unenforced, spec.policy) if unenforced and spec.policy is not Policy.BEST_EFFORT else None


def _translate_regex(pattern: str) -> Result[Translation, GrammarError]:
    match read(pattern).and_then(automaton):
        case Ok(machine):
            return Ok(Translation(EbnfSource(rules(machine, "root"))))
        case Err(fault):
            return Err(_bad_pattern(fault))


def _bad_pattern(fault: Fault) -> GrammarError:
    message = f"The regular expression cannot be had: {fault.message}."
    return GrammarError(kind=fault.kind, message=message, offset=fault.offset, backend=BACKEND)


def _translate_choice(options: tuple[str, ...]) -> Result[Translation, GrammarError]:
    if not options:
        return Err(_invalid("A choice has at least one option.", keyword="choice"))
    return _without_nul("".join(options), Translation(EbnfSource(choice(dict.fromkeys(options)))))


def _without_nul(text: str, translation: Translation) -> Result[Translation, GrammarError]:
    """xgrammar reads a grammar up to its first NUL and says nothing."""
    if (offset := text.find("\0")) >= 0:
        return Err(_invalid("There is a NUL character in it.", offset=offset))
    return Ok(translation)


def _invalid(message: str, *, keyword: str | None = None, offset: int | None = None) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=keyword, offset=offset, backend=BACKEND)
