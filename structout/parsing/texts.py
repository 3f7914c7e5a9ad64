"""What every text in a spec has to be: a string that UTF-8 can carry, within the limits."""

from structout.errors import GrammarError
from structout.parsing.limits import SpecLimits
from structout.parsing.nesting import Syntax, nesting_above
from structout.parsing.problems import describe, invalid, too_complex
from structout.result import Err, Ok, Result


def check_text(value: object, *, what: str, limits: SpecLimits, pointer: str | None) -> Result[str, GrammarError]:
    """The value as a plain ``str``, which it must be; ``what`` names it in messages ("the regex")."""
    if not isinstance(value, str):
        return invalid(f"{what} must be a string, not {describe(value)}", pointer=pointer)
    text = str.__str__(value)
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        message = f"{what} contains half of a surrogate pair, which UTF-8 cannot carry"
        return invalid(message, pointer=pointer, offset=error.start)
    if size > limits.max_text_bytes:
        found = f"{what} has {size:,} bytes"
        return too_complex(found, "max_text_bytes", limits.max_text_bytes, pointer=pointer)
    return Ok(text)


def check_grammar(
    value: object, syntax: Syntax, *, what: str, limits: SpecLimits, pointer: str | None
) -> Result[str, GrammarError]:
    """`check_text` for a pattern or a grammar: without NUL characters, and not nested too deeply."""
    match check_text(value, what=what, limits=limits, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(text):
            pass
    if (offset := text.find("\0")) >= 0:
        hint = "Write it as an escape sequence, if it is meant"
        return invalid(f"{what} contains a NUL character", pointer=pointer, offset=offset, hint=hint)
    return check_nesting(text, syntax, what=what, limits=limits, pointer=pointer)


def check_nesting(
    text: str, syntax: Syntax, *, what: str, limits: SpecLimits, pointer: str | None
) -> Result[str, GrammarError]:
    """The text, unless it nests deeper than the limit."""
    if depth := nesting_above(limits.max_depth, text, syntax):
        return too_complex(f"{what} nests {depth:,} levels deep", "max_depth", limits.max_depth, pointer=pointer)
    return Ok(text)
