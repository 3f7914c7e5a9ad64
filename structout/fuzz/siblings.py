"""Specs that are nearly the same as another one, but have another language: what a careless cache mixes up."""

import random
import re
import string
from collections.abc import Iterator

import attrs

from structout.spec import (
    Choice,
    Dialect,
    Ebnf,
    FormatMode,
    GrammarSpec,
    JsonSchema,
    KeyOrder,
    Lark,
    Policy,
    Regex,
    Serialization,
    StructuralTag,
    Whitespace,
)


def siblings(spec: GrammarSpec, draw: random.Random) -> Iterator[GrammarSpec]:
    """Specs that differ from one in a character, in the case of a letter, or in the form of the text."""
    alter = draw.choice((_altered, _recased))
    match spec:
        case Choice(options=options) if options:
            yield attrs.evolve(spec, options=[alter(option, draw) for option in options])
            yield attrs.evolve(spec, options=[f"{option} " for option in options])
        case Regex(pattern=pattern):
            yield attrs.evolve(spec, pattern=alter(pattern, draw))
        case JsonSchema(text=text):
            yield attrs.evolve(spec, text=alter(text, draw))
            other = Whitespace.SPACED if spec.serialization.whitespace is Whitespace.COMPACT else Whitespace.COMPACT
            yield attrs.evolve(spec, serialization=Serialization(whitespace=other))
        case Ebnf(text=text) | Lark(text=text) | StructuralTag(text=text):
            yield attrs.evolve(spec, text=alter(text, draw))


def variants(spec: GrammarSpec) -> Iterator[GrammarSpec]:
    """Specs that differ from one in one of the things beside its text, or in a value that some languages take for the
    same."""
    for policy in Policy:
        if policy is not spec.policy:
            yield attrs.evolve(spec, policy=policy)
    match spec:
        case JsonSchema(text=text, format_mode=mode, dialect=dialect, registry=registry):
            yield attrs.evolve(
                spec, format_mode=FormatMode.ASSERT if mode is FormatMode.ANNOTATE else FormatMode.ANNOTATE
            )
            yield attrs.evolve(
                spec, dialect=Dialect.DRAFT_7 if dialect is Dialect.DRAFT_2020_12 else Dialect.DRAFT_2020_12
            )
            yield attrs.evolve(spec, serialization=attrs.evolve(spec.serialization, key_order=KeyOrder.ANY))
            if registry:
                yield attrs.evolve(spec, registry=[(uri, text.replace("string", "null")) for uri, text in registry])
            yield from (
                attrs.evolve(spec, text=re.sub(rf"(?<=[:\[ ]){one}(?=[,\]}}])", other, text))
                for one, other in (("true", "1"), ("1", "true"), ("false", "0"), ("0", "false"), ("1", "1.0"))
            )
        case Choice(options=options):
            yield from (attrs.evolve(spec, options=[joint.join(options)]) for joint in ("|", ",", "\n", ""))
        case Ebnf(text=text):
            rules = re.findall(r"^([-\w]+)\s*::=", text, re.MULTILINE)
            yield from (attrs.evolve(spec, root=rule) for rule in rules if rule != spec.root)


def _altered(text: str, draw: random.Random) -> str:
    """The text with a digit or small letter changed, as long as before, three times in five one of the last three;
    itself where there is none."""
    places = [index for index, char in enumerate(text) if char in string.digits + string.ascii_lowercase]
    if not places:
        return text
    index = draw.choice((*places[-3:], places[0], draw.choice(places)))
    pool = string.digits if text[index] in string.digits else string.ascii_lowercase
    return text[:index] + draw.choice(pool.replace(text[index], "")) + text[index + 1 :]


def _recased(text: str, draw: random.Random) -> str:
    """The text with one of its last letters in the other case; itself where there is none."""
    places = [index for index, char in enumerate(text) if char in string.ascii_letters]
    if not places:
        return text
    index = draw.choice(places[-3:])
    return text[:index] + text[index].swapcase() + text[index + 1 :]
