"""What llguidance cannot take, found without loading it."""

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.spec import Choice, GrammarSpec, JsonSchema, Lark, Regex, StructuralTag
from structout_llguidance.examination import examine_ahead
from structout_llguidance.limits import MAX_GRAMMAR_SIZE, grammar_size
from structout_llguidance.tags import read_tags


def refusal(spec: GrammarSpec) -> GrammarError | None:
    """Why llguidance refuses a spec, as far as its text tells; None if it may take it."""
    match spec:
        case JsonSchema():
            return _error_of(examine_ahead(spec))
        case StructuralTag():
            return _error_of(read_tags(spec))
        case Regex(pattern=pattern):
            return _surrogate_refusal(pattern) or _escape_refusal(pattern)
        case Lark(text=text):
            return _surrogate_refusal(text) or _size_refusal(text)
        case Choice(options=options) if options:
            return _surrogate_refusal("".join(options))
        case Choice():
            return GrammarError(kind=ErrorKind.INVALID_SPEC, message="There is no option to choose.")
    return None


def _error_of(result: Result[object, GrammarError]) -> GrammarError | None:
    match result:
        case Err(error):
            return error
        case Ok():
            return None


def _surrogate_refusal(text: str) -> GrammarError | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "It has half of a surrogate pair, which no text can contain."
        return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message)
    return None


def _escape_refusal(pattern: str) -> GrammarError | None:
    """llguidance drops a backslash at the end instead of complaining."""
    backslashes = len(pattern) - len(pattern.rstrip("\\"))
    if backslashes % 2 == 0:
        return None
    message = "The regular expression ends inside of an escape."
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, offset=len(pattern) - 1)


def _size_refusal(text: str) -> GrammarError | None:
    if (size := grammar_size(text)) <= MAX_GRAMMAR_SIZE:
        return None
    message = f"The grammar has {size} rules and groups that could be nested in one another; {MAX_GRAMMAR_SIZE} may."
    return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message)
