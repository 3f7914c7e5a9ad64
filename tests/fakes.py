"""Explicit stand-ins: a complete small grammar backend, a plugin around it, and a model whose logits are scripted.

`TrieBackend` compiles choices over any vocabulary and is exact, so that laws about the core can be tested without any
native library. Subclasses misbehave in one stated way.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar

import attrs
import numpy as np
import torch

from structout import (
    BackendInfo,
    Choice,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    Ok,
    Result,
    Status,
    Vocabulary,
    hookimpl,
)
from structout.backend import Backend, BitmaskRow, CompiledGrammar, Matcher
from structout.grammar import BoundBackend, Grammar
from structout.spec import GrammarSpec

EOS = 256
BYTES = Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"", b"ab", b"cd", "é".encode()],
    eos_token_ids=[EOS],
    control=[(EOS, "</s>")],
    padded_size=288,
)
"""A token for each byte, EOS, three longer tokens, and padding to a whole number of words and one word more."""


@cache
def _tokens_by_bytes(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    tokens: dict[bytes, list[int]] = {}
    for token, piece in enumerate(vocabulary.tokens()):
        tokens.setdefault(piece, []).append(token)
    return tokens


@cache
def _packed(columns: int, tokens: frozenset[int]) -> BitmaskRow:
    bits = np.zeros(-(-columns // 32) * 32, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


@attrs.define(eq=False)
class TrieMatcher:
    """Matches one of several byte strings; has none of the optional abilities."""

    options: frozenset[bytes]
    vocabulary: Vocabulary
    stops: frozenset[int]
    text: bytes = b""
    ended: bool = False

    def fill(self, row: BitmaskRow) -> Status:
        if self.ended:
            return Status.TERMINATED
        row[:] = _packed(self.vocabulary.padded_size, self._allowed())
        return Status.OK

    def _allowed(self) -> frozenset[int]:
        rest = {option[len(self.text) :] for option in self.options if option.startswith(self.text)}
        pieces = _tokens_by_bytes(self.vocabulary)
        starts = {text[:length] for text in rest for length in range(1, len(text) + 1)}
        follow = {token for start in starts for token in pieces.get(start, ())}
        return frozenset(follow - self.stops | (self.stops if b"" in rest else set()))

    def accept(self, token: int) -> Status:
        if self.ended:
            return Status.TERMINATED
        if token not in self._allowed():
            return Status.REJECTED
        self.ended = token in self.stops
        if not self.ended:
            self.text += self.vocabulary.token(token)
        return Status.OK

    @property
    def is_accepting(self) -> bool:
        return self.text in self.options

    @property
    def is_terminated(self) -> bool:
        return self.ended


@attrs.define(eq=False)
class RollbackTrieMatcher(TrieMatcher):
    """Can also roll back, and cannot fork."""

    undo: list[tuple[bytes, bool]] = attrs.field(factory=list)

    def accept(self, token: int) -> Status:
        before = (self.text, self.ended)
        status = TrieMatcher.accept(self, token)
        if status is Status.OK:
            self.undo.append(before)
        return status

    def rollback(self, tokens: int) -> Status:
        for _ in range(tokens):
            self.text, self.ended = self.undo.pop()
        return Status.OK


@attrs.define(eq=False)
class ForkTrieMatcher(TrieMatcher):
    """Can also fork, and cannot roll back."""

    def fork(self) -> "ForkTrieMatcher":
        return attrs.evolve(self)


MatcherType = type[TrieMatcher]
MATCHER_TYPES: tuple[MatcherType, ...] = (TrieMatcher, RollbackTrieMatcher, ForkTrieMatcher)


@attrs.frozen(eq=False)
class TrieGrammar:
    """A compiled choice."""

    options: frozenset[bytes]
    vocabulary: Vocabulary
    matcher: Callable[..., Matcher] = TrieMatcher
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        return self.matcher(self.options, self.vocabulary, frozenset(stop_token_ids))


@attrs.frozen(eq=False)
class TrieBackend:
    """Compiles `Choice`. An option ``refuse`` is refused, an option ``raise`` raises: for tests of failures."""

    vocabulary: Vocabulary
    matcher: Callable[..., Matcher] = TrieMatcher

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        if "refuse" in spec.options:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="the option 'refuse' is refused"))
        if "raise" in spec.options:
            raise RuntimeError("secret internals")
        return Ok(TrieGrammar(frozenset(option.encode() for option in spec.options), self.vocabulary, self.matcher))


def trie_info(id: str = "trie", matcher: Callable[..., Matcher] = TrieMatcher) -> BackendInfo:
    def create(vocabulary: Vocabulary) -> Backend:
        return TrieBackend(vocabulary, matcher)

    return BackendInfo(id=id, create=create, spec_kinds=frozenset({"choice"}))


class TriePlugin:
    """A plugin that registers the backends it is given."""

    def __init__(self, *infos: BackendInfo) -> None:
        self.infos = infos or (trie_info(),)

    @hookimpl
    def structout_register_backends(self) -> Sequence[BackendInfo]:
        return self.infos


def trie_grammar(
    *options: str, vocabulary: Vocabulary = BYTES, matcher: Callable[..., Matcher] = TrieMatcher
) -> Grammar:
    """A guarded grammar for one of ``options``."""
    bound = BoundBackend.create(trie_info(matcher=matcher), "trie 1.0", vocabulary).unwrap()
    return bound.compile(Choice(options)).unwrap()


def allowed(row: BitmaskRow, columns: int) -> set[int]:
    """The token ids whose bits are set in a row, up to ``columns``."""
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits[:columns]).tolist())


class ScriptedRunner:
    """A model without weights: logits are a fixed function of all tokens in a row.

    It checks how it is driven (chunks in order, rows in range), so that an engine that mixes up rows is found, and its
    output for a request does not depend on what runs beside it. ``fail_on`` names a token that makes the forward
    passes that meet it raise.
    """

    device: ClassVar[torch.device] = torch.device("cpu")

    def __init__(self, logit_width: int = BYTES.padded_size, *, max_rows: int = 4, max_len: int = 64) -> None:
        self.logit_width = logit_width
        self.max_rows = max_rows
        self.max_len = max_len
        self.fail_on: int | None = None
        self.prefilled = 0
        self._rows: list[list[int]] = [[] for _ in range(max_rows)]

    def logits_of(self, tokens: Sequence[int]) -> torch.Tensor:
        seed = zlib.crc32(np.asarray(tokens, np.int64).tobytes())
        return torch.from_numpy(np.random.default_rng(seed).standard_normal(self.logit_width).astype(np.float32))

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        assert start == len(self._rows[row]), "a chunk has to follow what the row holds"
        assert tokens, "a chunk has at least one token"
        self._check(tokens)
        self._rows[row] += tokens
        self.prefilled += len(tokens)
        assert len(self._rows[row]) <= self.max_len
        return self.logits_of(self._rows[row])

    def decode(self, tokens: Sequence[int]) -> torch.Tensor:
        self._check(tokens)
        for row, token in zip(self._rows, tokens, strict=False):
            row.append(token)
            assert len(row) <= self.max_len
        return torch.stack([self.logits_of(row) for row in self._rows[: len(tokens)]])

    def _check(self, tokens: Sequence[int]) -> None:
        if self.fail_on in tokens:
            raise RuntimeError("the model failed")

    def swap(self, a: int, b: int) -> None:
        self._rows[a], self._rows[b] = self._rows[b], self._rows[a]

    def truncate(self, row: int, length: int) -> None:
        del self._rows[row][length:]

    def length(self, row: int) -> int:
        return len(self._rows[row])
