"""Whether a token may follow depends on its bytes: not on how large its id is, nor on others of the same bytes."""

import functools
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from structout.fuzz.law import Law, broken
from structout.fuzz.oracles.second import second
from structout.fuzz.probe import Probed
from structout.fuzz.trial import Trial
from structout.grammar import BoundBackend
from structout.result import Err, Ok
from structout.vocabulary import TokenKind, Vocabulary

LARGE: Final = 1 << 16
"""Where ids begin that do not fit 16 bits."""


def ids_do_not_matter(trial: Trial) -> None:
    """With every token of text a second time, under ids beyond 65536, the rows are the same: for the tokens as they
    were, and for their copies. The copies are taken too. A backend may refuse a spec for so large a vocabulary."""
    wide = _wide(trial.bound)
    match wide.bound.compile(trial.case.spec):
        case Err():
            return
        case Ok(grammar):
            probed = Probed(grammar.compiled, grammar.vocabulary)
    for probe in trial.states(3):
        other, row = probed.start(), probe.fill()
        if other.feed(wide.copies[probe.tokens].tolist()) < len(probe.tokens):
            broken(Law.TOKEN_IDS, "it does not take a token with the bytes of another, which it takes", **other.where())
        wider = other.fill()
        for what, ids in (("a token", wide.own), ("a token with the bytes of another", wide.copies[wide.own])):
            differing = wide.own[row[wide.own] != wider[ids]].tolist()
            if differing:
                message = f"{what} is treated in another way in a larger vocabulary"
                broken(Law.TOKEN_IDS, message, differing=differing[:8], **probe.where())


@attrs.frozen(eq=False)
class _Wide:
    """A backend with a large vocabulary; ``own`` are the ids of text that the small one has, ``copies`` the second ids
    of the same bytes by the first; of what is no text the id itself."""

    bound: BoundBackend
    own: npt.NDArray[np.intp]
    copies: npt.NDArray[np.intp]


@functools.lru_cache(maxsize=1)
def _wide(bound: BoundBackend) -> _Wide:
    own = np.array(bound.vocabulary.ids(TokenKind.TEXT, TokenKind.ADDED), np.intp)
    vocabulary = _widened(bound.vocabulary, own.tolist())
    copies = np.arange(bound.vocabulary.size)
    copies[own] = vocabulary.size - own.size + np.arange(own.size)
    return _Wide(second(bound, vocabulary, f"for a vocabulary of {vocabulary.size} tokens"), own, copies)


def _widened(small: Vocabulary, own: list[int]) -> Vocabulary:
    """The same tokens, then others that are no UTF-8 up to 65536, and then those of text once more."""
    filler = (b"\xff\xff" + number.to_bytes(2, "big") for number in range(small.size, LARGE))
    return Vocabulary.from_tokens(
        [*small.tokens(), *filler, *map(small.token, own)],
        eos_token_ids=small.eos_token_ids,
        control=small.names,
        added=small.ids(TokenKind.ADDED),
    )
