"""Regular expressions and choices in llguidance's dialect of Lark, and the tokens that a grammar in it names."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import llguidance
import numpy as np

from structout.backend import BitmaskRow
from structout.vocabulary import TokenKind, Vocabulary
from structout_llguidance.schemas import prepared
from structout_llguidance.tags import Tag

NO_FORCING: Final = '%llguidance {"no_forcing": true}\n'
"""Where the text is certain, a mask has every token that fits, and not only the one that llguidance's own tokenizer
would choose. There is none here."""
_TOKEN_RANGES: Final = re.compile(r"<\[([0-9,\s-]+)\]>")


def regex_grammar(pattern: str) -> str:
    """A pattern of Rust's ``regex``: ``\\d``, ``\\w`` and ``\\s`` are ASCII only, and ``.`` is any but ``\\n``."""
    start = f"/{llguidance.regex_to_lark(pattern, 'dws')}/" if pattern else '""'
    return f"{NO_FORCING}start: {start}"


def choice_grammar(options: Iterable[str]) -> str:
    """One of the options. They are one terminal: as alternatives of a rule llguidance takes 2,000 at most."""
    return f"{NO_FORCING}start: OPTION\nOPTION: " + " | ".join(map(json.dumps, dict.fromkeys(options)))


def tag_grammar(tags: Sequence[Tag]) -> str:
    """One tag, or free text with tags in it: there a trigger begins a tag wherever it is completed."""
    schemas = [json.dumps(prepared(tag.schema, tag.examination)) for tag in tags]
    if tags[0].trigger is None:
        return f"{NO_FORCING}start: {json.dumps(tags[0].begin)} %json {schemas[0]} {json.dumps(tags[0].end)}"
    native = [
        llguidance.StructTag(trigger=tag.trigger or "", begin=tag.begin, grammar=schema, end=tag.end)
        for tag, schema in zip(tags, schemas, strict=True)
    ]
    return llguidance.StructTag.to_grammar(native, assume_special=False)


def permitted_tokens(text: str, vocabulary: Vocabulary) -> BitmaskRow:
    """The row of the tokens that a grammar may use: all text, and what else it names.

    llguidance alone opens control tokens and padding to a grammar that has ``~``, ``<[*]>`` or bytes beyond UTF-8.
    """
    bits = np.zeros(vocabulary.bitmask_width * 32, np.uint8)
    bits[vocabulary.ids(TokenKind.TEXT, TokenKind.ADDED)] = 1
    bits[[token for token, name in vocabulary.names if name.startswith("<") and name in text]] = 1
    bits[[token for token in _listed_tokens(text) if vocabulary.kind(token) is not TokenKind.ABSENT]] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


def _listed_tokens(text: str) -> Iterator[int]:
    for listed in _TOKEN_RANGES.findall(text):
        for first, last in re.findall(r"([0-9]+)(?:\s*-\s*([0-9]+))?", listed):
            yield from range(int(first), int(last or first) + 1)
