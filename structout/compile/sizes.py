"""How much memory a compiled grammar takes: what it says itself, or an estimate."""

import logging
from typing import Final

from structout.backend import SupportsSize
from structout.compile.risk.measures import text_bytes
from structout.errors import reraise_users_interrupt
from structout.grammar import Grammar
from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex, StructuralTag

logger = logging.getLogger(__name__)

BASE_BYTES: Final = 4096
"""What a grammar takes at least: its objects, whatever the spec is."""
BYTES_PER_BYTE: Final = 200
"""What a grammar that does not know its size is taken to hold for each byte of its spec. Grammars of llguidance for 216
schemas of the MaskBench sample, 530 bytes each, hold 194: 102 kB each."""
MOST_BYTES: Final = 1 << 40
"""More than that no grammar is believed to take."""


def spec_bytes(spec: GrammarSpec) -> int:
    """Bytes of the texts of a spec."""
    match spec:
        case JsonSchema(text=text, registry=registry):
            return text_bytes(text) + sum(text_bytes(part) for pair in registry for part in pair)
        case Regex(pattern=text) | StructuralTag(text=text) | Ebnf(text=text) | Lark(text=text):
            return text_bytes(text)
        case Choice(options=options):
            return sum(map(text_bytes, options)) + len(options)
    return 0


def size_of(grammar: Grammar) -> int:
    """Bytes that a grammar holds, spec included. Never raises; what a plugin says is taken for it if it can be true."""
    text = spec_bytes(grammar.spec)
    said = _said(grammar)
    return BASE_BYTES + text + (BYTES_PER_BYTE * text if said is None else said)


def _said(grammar: Grammar) -> int | None:
    """What the plugin says; None if it says nothing or nonsense."""
    try:
        size: object = grammar.compiled.size_bytes if isinstance(grammar.compiled, SupportsSize) else None
    except BaseException as exc:
        reraise_users_interrupt(exc)
        logger.exception("a grammar of %s cannot tell its size", grammar.backend.id)
        return None
    if size is None or (type(size) is int and 0 <= size <= MOST_BYTES):
        return size
    logger.error("a grammar of %s says that its size is %.100r", grammar.backend.id, size)
    return None
