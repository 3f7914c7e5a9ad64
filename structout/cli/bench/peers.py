"""Backends called directly, as their own documentation shows: nothing of structout's is between."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import attrs

from structout.backend import Bitmask
from structout.vocabulary import Vocabulary


class Walker(Protocol):
    """One sequence."""

    def fill(self, bitmask: Bitmask, row: int) -> object:
        """Writes what may come next into a row."""
        ...

    def accept(self, token: int) -> bool:
        """Goes on; whether the token was allowed."""
        ...


Start = Callable[[], Walker]
"""Makes a sequence of a grammar that is compiled; raises what the library raises where it compiles only now."""

Compile = Callable[[str], Start]
"""Compiles a JSON Schema; raises what the library raises if it does not take it."""


def xgrammar(vocabulary: Vocabulary) -> Compile:
    """xgrammar on JSON Schemas, with its defaults."""
    import xgrammar

    stops = list(vocabulary.eos_token_ids)
    info = xgrammar.TokenizerInfo(vocabulary.tokens(), vocab_size=vocabulary.padded_size, stop_token_ids=stops)
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)

    def compile_schema(schema: str) -> Start:
        grammar = compiler.compile_json_schema(schema)
        return lambda: _Xgrammar(xgrammar.GrammarMatcher(grammar))

    return compile_schema


@attrs.frozen(eq=False)
class _Xgrammar:
    native: Any

    def fill(self, bitmask: Bitmask, row: int) -> object:
        return self.native.fill_next_token_bitmask(bitmask, row)

    def accept(self, token: int) -> bool:
        return bool(self.native.accept_token(token))


def llguidance(vocabulary: Vocabulary) -> Compile:
    """llguidance on JSON Schemas, with its defaults."""
    import llguidance

    tokenizer = llguidance_tokenizer(vocabulary)

    def compile_schema(schema: str) -> Start:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)

        def start() -> Walker:
            matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
            if error := matcher.get_error():
                raise ValueError(error)
            return _Llguidance(matcher)

        return start

    return compile_schema


def llguidance_tokenizer(vocabulary: Vocabulary) -> Any:
    """The vocabulary as llguidance takes it from libraries that it has no adapter for."""
    import llguidance

    return llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Tokens(vocabulary)),
        n_vocab=vocabulary.padded_size,
        eos_token=list(vocabulary.eos_token_ids),
    )


class _Tokens:
    """A tokenizer as llguidance wraps it; it is asked to encode nothing here."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos_token_ids[0]
        self.bos_token_id = None
        self.tokens = vocabulary.tokens()
        self.special_token_ids = [token for token, _ in vocabulary.names]
        for token, name in vocabulary.names:
            self.tokens[token] = name.encode()

    def __call__(self, text: bytes) -> list[int]:
        return [self.tokens.index(bytes([byte])) for byte in text]


@attrs.frozen(eq=False)
class _Llguidance:
    native: Any

    def fill(self, bitmask: Bitmask, row: int) -> object:
        into = bitmask[row]
        return self.native.unsafe_compute_mask_ptr(into.ctypes.data, into.nbytes)

    def accept(self, token: int) -> bool:
        return bool(self.native.consume_token(token))


PEERS: Final[Mapping[str, Callable[[Vocabulary], Compile]]] = MappingProxyType(
    {"xgrammar": xgrammar, "llguidance": llguidance}
)
"""By the id of structout's backend on the same library."""
