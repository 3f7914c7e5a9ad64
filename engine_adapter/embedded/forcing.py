"""Tokens that a sequence gets without being sampled: those of a text that its grammar forces."""

from collections.abc import Sequence as Tokens
from typing import Final, Protocol

from engine_adapter.embedded.request import Sequence

AT_ONCE: Final = 128
"""Bytes of a forced text that are looked at after a token: it may be of any length, and without end."""


class Canonical(Protocol):
    """What knows the model's tokenizer; `structout.vocabularies.CanonicalTokens` is one."""

    def after(self, before: Tokens[int], text: bytes) -> tuple[int, ...]:
        """The tokens that ``text``, which follows the tokens ``before``, certainly has, or its beginning."""
        ...


class Forcing:
    """Decides which tokens a sequence goes on with whatever the model says. The model computes them with the next token
    that is sampled, so each saves a step. None is forced

    - where the grammar is risky: its matcher may be slow or in another process, and looking ahead takes a fill for
      each byte, on the engine's thread. Which grammars are risky only a compile service with a sandbox knows;
    - where log-probabilities are asked for: a token has one only if it was sampled;
    - where tokens have a bias: it may be meant to keep out the very token that is canonical.

    Args:
        canonical: knows the model's tokenizer; None to force nothing.
    """

    def __init__(self, canonical: Canonical | None) -> None:
        self._canonical = canonical

    def tokens(self, sequence: Sequence) -> tuple[int, ...]:
        """The tokens that certainly follow those of the sequence. Never a stop token, though one may stand for text."""
        constraint, sampling = sequence.constraint, sequence.request.sampling
        if self._canonical is None or constraint is None or constraint.grammar.is_risky or sequence.is_over:
            return ()
        if sampling.logprobs is not None or sampling.logit_bias:
            return ()
        text = constraint.forced_text(AT_ONCE)
        tokens = self._canonical.after(sequence.tokens, text) if text else ()
        return tokens if sequence.stop_token_ids.isdisjoint(tokens) else ()
