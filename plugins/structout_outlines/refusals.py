"""What can be said of a spec without the library."""

from typing import Final

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.schema import findings as schema_findings
from structout.schema import refusal as schema_refusal
from structout.schema.loading import load_schema
from structout.spec import Choice, Escapes, GrammarSpec, JsonSchema, KeyOrder, Regex, Whitespace
from structout_outlines.extent import too_extensive
from structout_outlines.rules import NARROWED, STRINGS, UNENFORCED
from structout_outlines.syntax import Pattern, read

BACKEND: Final = "outlines"

_SPECIAL: Final = frozenset(r"\.+*?()|[]{}^$#&-~")
_OPTIONS_SIZE: Final = 1_000_000


def refusal(spec: GrammarSpec) -> GrammarError | None:
    """The error with which ``compile`` would refuse a spec, as far as the library is not needed to find it."""
    match spec:
        case JsonSchema():
            return _schema_refusal(spec)
        case Regex() | Choice():
            match pattern_of(spec):
                case Err(error):
                    return error
    return None


def pattern_of(spec: Regex | Choice) -> Result[Pattern, GrammarError]:
    """The pattern to compile."""
    text = spec.pattern if isinstance(spec, Regex) else "|".join(map(_escaped, dict.fromkeys(spec.options)))
    if isinstance(spec, Choice) and not spec.options:
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message="There are no options to choose from."))
    if "\0" in text:
        message = "U+0000 cannot be written: outlines uses it to mark the end."
        return Err(_unsupported(message, hint="leave it out, or name another backend"))
    if any("\ud800" <= char <= "\udfff" for char in text):
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message="The text has a lone surrogate."))
    if len(text) > _OPTIONS_SIZE:
        message = f"The text has more than {_OPTIONS_SIZE:,} characters."
        return Err(GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message))
    return read(text)


def _escaped(option: str) -> str:
    return "".join("\\" + char if char in _SPECIAL else char for char in option)


def _unsupported(message: str, *, keyword: str | None = None, hint: str | None = None) -> GrammarError:
    return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, keyword=keyword, hint=hint)


def _schema_refusal(spec: JsonSchema) -> GrammarError | None:
    serialization = spec.serialization
    if serialization.whitespace is Whitespace.SPACED:
        return _unsupported("outlines writes no spaces or optional ones, not exactly one.", keyword="whitespace")
    if serialization.escapes is Escapes.MINIMAL:
        return _unsupported("outlines also writes escapes that JSON does not demand.", keyword="escapes")
    if error := schema_refusal(spec, (*UNENFORCED, *STRINGS), backend=BACKEND):
        return error
    match load_schema(spec):
        case Err(error):
            return error
        case Ok(schema):
            return too_extensive(schema)


def unenforced(spec: JsonSchema) -> Result[tuple[Finding, ...], GrammarError]:
    """Where more gets through than a schema allows."""
    return schema_findings(spec, (*UNENFORCED, *STRINGS))


def narrowed(spec: JsonSchema) -> Result[tuple[Finding, ...], GrammarError]:
    """Where less gets through: first what holds for every schema, then what depends on it."""
    everywhere = [Finding("", keyword, reason) for keyword, reason in _EVERYWHERE.items()]
    if spec.serialization.whitespace is Whitespace.ANY:
        everywhere.append(Finding("", "whitespace", "is one space at most, and none around the text"))
    if spec.serialization.key_order is KeyOrder.ANY:
        everywhere.append(Finding("", "key_order", "is that of properties"))
    return schema_findings(spec, NARROWED).map(lambda found: (*everywhere, *found))


_EVERYWHERE: Final = {
    "characters": "leaves out U+007F to U+009F",
    "escapes": "leaves out \\u, and with it control characters that have no short escape",
    "numbers": "leaves out exponents without a sign, integers written as fractions, and other forms of constants",
    "nesting": "is two levels at most in what the schema leaves open",
}
