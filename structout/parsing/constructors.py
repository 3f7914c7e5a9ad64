"""The checked constructors: a value that is meant to be one kind of spec, in; the spec or what is wrong with it, out.

All dialects, the command line and everyone who has no whole request at hand share them. ``pointer`` says where in a
request the value stands; errors continue it.
"""

import re
from typing import Final

from structout.errors import GrammarError
from structout.parsing.json_text import read_json
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.nesting import Syntax
from structout.parsing.problems import child, describe, invalid, too_complex
from structout.parsing.texts import check_grammar, check_text
from structout.result import Err, Ok, Result
from structout.spec import (
    Choice,
    Dialect,
    Ebnf,
    FormatMode,
    JsonObject,
    JsonSchema,
    Lark,
    Policy,
    Regex,
    Serialization,
)

_ANY_SERIALIZATION: Final = Serialization()
_FREE_TEXT_HINT = "Leave the field out for unconstrained text"


def json_schema(
    schema: object,
    *,
    policy: Policy = Policy.SOUND,
    dialect: Dialect = Dialect.DRAFT_2020_12,
    format_mode: FormatMode = FormatMode.ASSERT,
    serialization: Serialization = _ANY_SERIALIZATION,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[JsonSchema, GrammarError]:
    """A schema as JSON text, or as a JSON value, which is frozen to text at once.

    The schema must be an object or a boolean, and JSON that every reader reads alike; whether its keywords make sense
    is not looked at. Pointers of errors lead into the schema, also where it came as text.
    """
    match read_json(schema, what="the schema", limits=limits, pointer=pointer or ""):
        case Err() as failed:
            return failed
        case Ok(json):
            pass
    if not isinstance(json.value, dict | bool):
        message = f"the schema must be an object or a boolean, not {describe(json.value)}"
        return invalid(message, pointer=pointer or "", hint='Pass a JSON Schema, such as {"type": "object"}')
    return Ok(
        JsonSchema(json.text, policy=policy, dialect=dialect, format_mode=format_mode, serialization=serialization)
    )


def json_object(
    flag: object,
    *,
    policy: Policy = Policy.SOUND,
    serialization: Serialization = _ANY_SERIALIZATION,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[JsonObject, GrammarError]:
    """Any JSON object, asked for with the flag ``true``; there is nothing that ``false`` could mean."""
    if flag is not True:
        found = "false" if flag is False else describe(flag)
        return invalid(f"json_object must be true where it is set, not {found}", pointer=pointer, hint=_FREE_TEXT_HINT)
    return Ok(JsonObject(policy=policy, serialization=serialization))


def regex(
    pattern: object,
    *,
    policy: Policy = Policy.SOUND,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[Regex, GrammarError]:
    """A regular expression. White space is a pattern like others; the empty pattern is taken for a mistake."""
    match check_grammar(pattern, Syntax.REGEX, what="the regex", limits=limits, pointer=pointer):
        case Ok(""):
            return invalid("the regex is empty: it allows the empty text only", pointer=pointer, hint=_FREE_TEXT_HINT)
        case Ok(text):
            return Ok(Regex(text, policy=policy))
        case Err() as failed:
            return failed


def ebnf(
    text: object,
    *,
    policy: Policy = Policy.SOUND,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[Ebnf, GrammarError]:
    """A grammar in GBNF, from its rule ``root``."""
    checked = _grammar(text, Syntax.EBNF, limits, pointer)
    return checked.and_then(lambda text: Ok(Ebnf(text, policy=policy)))


def lark(
    text: object,
    *,
    policy: Policy = Policy.SOUND,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[Lark, GrammarError]:
    """A grammar in Lark's syntax, from its rule ``start``."""
    checked = _grammar(text, Syntax.LARK, limits, pointer)
    return checked.and_then(lambda text: Ok(Lark(text, policy=policy)))


def grammar(
    text: object,
    *,
    policy: Policy = Policy.SOUND,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[Ebnf | Lark, GrammarError]:
    """A grammar in a field that does not say which syntax: Lark where no rule is written with ``::=``, else GBNF."""
    is_lark = isinstance(text, str) and not _RULES[Syntax.EBNF].search(text) and _RULES[Syntax.LARK].search(text)
    constructor = lark if is_lark else ebnf
    return constructor(text, policy=policy, limits=limits, pointer=pointer)


_RULES: Final = {
    Syntax.EBNF: re.compile(r"^[ \t]*+[\w-]++\s*+::=", re.MULTILINE),
    Syntax.LARK: re.compile(r"^[ \t]*+[?!]?\w[^\n:]*+:(?!:=)", re.MULTILINE),
}
_RULE_HINT = "Write rules as in EBNF (root ::= ...) where it is EBNF, as in Lark (start: ...) where it is Lark"


def _grammar(text: object, syntax: Syntax, limits: SpecLimits, pointer: str | None) -> Result[str, GrammarError]:
    checked = check_grammar(text, syntax, what="the grammar", limits=limits, pointer=pointer)
    if isinstance(checked, Err):
        return checked
    if not checked.value.strip():
        return invalid("the grammar is empty", pointer=pointer, hint=_FREE_TEXT_HINT)
    if not _RULES[syntax].search(checked.value):
        name = {Syntax.EBNF: "EBNF", Syntax.LARK: "Lark"}[syntax]
        return invalid(f"the grammar has no rule of {name} in it", pointer=pointer, hint=_RULE_HINT)
    return checked


def choice(
    options: object,
    *,
    policy: Policy = Policy.SOUND,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[Choice, GrammarError]:
    """A list of texts to choose from. One may occur twice, and one may be empty if another is not."""
    if not isinstance(options, list | tuple):
        hint = 'Pass the options one by one, such as ["yes", "no"]'
        return invalid(f"the choice must be an array of strings, not {describe(options)}", pointer=pointer, hint=hint)
    if len(options) > limits.max_choices:
        found = f"the choice has {len(options):,} options"
        return too_complex(found, "max_choices", limits.max_choices, pointer=pointer)
    match _texts(options, limits, pointer):
        case Err() as failed:
            return failed
        case Ok(texts) if not any(texts):
            found = "has only the empty text in it" if texts else "has no options"
            return invalid(f"the choice {found}", pointer=pointer, hint="Name at least one text to choose")
        case Ok(texts):
            return Ok(Choice(texts, policy=policy))


def _texts(
    options: list[object] | tuple[object, ...], limits: SpecLimits, pointer: str | None
) -> Result[tuple[str, ...], GrammarError]:
    texts: list[str] = []
    room = limits.max_text_bytes
    for index, option in enumerate(options):
        place = child(pointer or "", index)
        match check_text(option, what=f"option {index} of the choice", limits=limits, pointer=place):
            case Err() as failed:
                return failed
            case Ok(text) if (offset := text.find("\0")) >= 0:
                message = f"option {index} of the choice contains a NUL character"
                return invalid(message, pointer=place, offset=offset, hint="Take it out")
            case Ok(text):
                texts.append(text)
                room -= len(text.encode("utf-8"))
    if room < 0:
        found = f"the options of the choice have {limits.max_text_bytes - room:,} bytes"
        return too_complex(found, "max_text_bytes", limits.max_text_bytes, pointer=pointer)
    return Ok(tuple(texts))
