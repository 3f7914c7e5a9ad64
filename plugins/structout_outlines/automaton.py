"""From a pattern to an index of all its states, exact and of bounded cost.

The library's automaton is leftmost-first: it looks for the match that a backtracking engine would find. And of a state
that is final, its index keeps no way on: ``a(-a)?`` never gets to its ``-``. So every pattern gets an **end marker**:
with ``(?:pattern)\\0`` no text matches before the marker, so nothing is cut off, and a text is complete exactly where
the marker leads to a match. The marker is U+0000, as a token with an id that the model does not have, so it is never
sampled. Tokens of the model that contain U+0000 are not in the index, so no text contains it: no dot or negated class
can get past an end by it, and no part of a token can be taken for the marker. That is the price: texts with U+0000 are
not in the language of any pattern here.

The library also prepares for matches that start later, and so follows the pattern from every place of a text at once,
which takes up to 2^n states for n useful ones. An empty alternative behind the pattern, which is a match from the first
place on, rids it of that: 0.02 instead of 5 s for one schema of 1,600 states. But it makes the first state final, and
that state's transitions are lost. So there is a **start marker** before the pattern, and the state behind it, where
matchers start, is found as the one from which the *entry* leads to a match: ``\\0(?:entry|(?:pattern)\\0)|``. The entry
ends with another character than the marker, so nothing but itself can be its match.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from outlines_core import Index
from outlines_core import Vocabulary as Tokens

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.vocabulary import TokenKind, Vocabulary
from structout_outlines.matcher import OutlinesGrammar
from structout_outlines.syntax import Pattern

MARKER: Final = b"\0"
ENTRY: Final = b"\0\1"

MAX_SIZE: Final = 40_000
"""Size of a pattern (`structout_outlines.syntax.Pattern`) that is determinized. The library determinizes without a
limit; up to here it takes tenths of a second and at most some 200 MB, unless the states multiply, which only a time
limit around the compile can stop (``[ab]*a[ab]{20}`` has two million)."""

MAX_TRANSITIONS: Final = 100_000_000
"""States times tokens. The library tries every token in every state, which takes some 80 ns each: at the bound 8 s, and
1 to 2 GB if most tokens are allowed in most states. With 49,152 tokens that is 2,034 states."""

_BYTES_END: Final = 256
_TRANSITION_BYTES: Final = 14
_SAMPLED_STATES: Final = 64
_SAMPLED_SHARE: Final = 16


class Builder:
    """Builds indexes for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._fingerprint = vocabulary.fingerprint
        self._padded_size = vocabulary.padded_size
        text = vocabulary.ids(TokenKind.TEXT, TokenKind.ADDED)
        ids = _ids_by_text((token, vocabulary.token(token)) for token in text)
        self._text_size = max(1, len(ids))
        self._tokens = _with_marks(ids, vocabulary.padded_size)
        self._bytes = _with_marks({bytes([byte]): [byte] for byte in range(1, 256)}, _BYTES_END)

    def build(self, pattern: Pattern) -> Result[OutlinesGrammar, GrammarError]:
        """The grammar of a pattern. Raises what the library raises unexpectedly."""
        if pattern.size > MAX_SIZE:
            return Err(_too_complex(f"it has about {pattern.size:,} positions; the limit is {MAX_SIZE:,}"))
        marked = rf"\x00(?:\x00\x01|(?:{pattern.text})\x00)|"
        try:
            # With a token for each byte an index is quickly built, and has all the states that one could meet.
            states = _states(Index(marked, self._bytes), limit=MAX_TRANSITIONS // self._text_size)
            if isinstance(states, GrammarError):
                return Err(states)
            index = Index(marked, self._tokens)
        except ValueError as error:
            return Err(_explained(error))
        first = _first_state(index, self._padded_size)
        if not _leads_on(index, first, self._padded_size):
            return Err(_unsatisfiable("that this model's tokens spell"))
        return Ok(self._grammar(index, first, states))

    def _grammar(self, index: Index, first: int, states: list[int]) -> OutlinesGrammar:
        # At random: of the states in their order, every n-th may lie in the middle of a character.
        count = min(len(states), max(_SAMPLED_STATES, len(states) // _SAMPLED_SHARE))
        sample = Random(0).sample(states, count)
        transitions = sum(len(index.get_allowed_tokens(state) or ()) for state in sample) * len(states) // count
        return OutlinesGrammar(
            index=index,
            first=first,
            vocabulary=self._fingerprint,
            padded_size=self._padded_size,
            unenforced=(),
            narrowed=(),
            size_bytes=transitions * _TRANSITION_BYTES,
        )


def _with_marks(ids: dict[bytes, list[int]], end: int) -> Tokens:
    """The library's vocabulary, with ids from ``end`` on for marker, entry, and the end of sequence it insists on."""
    return Tokens(end + 2, ids | {MARKER: [end], ENTRY: [end + 1]})


def _first_state(index: Index, end: int) -> int:
    """The state behind the start marker. Ids are not consecutive, but it is among the first."""
    final = index.get_final_states()
    return next(state for state in range(1 << 32) if index.get_next_state(state, end + 1) in final)


def _leads_on(index: Index, state: int, end: int) -> bool:
    """Whether a text token, or a marker that ends the text, can follow."""
    tokens = [token for token in index.get_allowed_tokens(state) or () if token < end]
    return bool(tokens) or index.is_final_state(index.get_next_state(state, end))


def _ids_by_text(tokens: Iterable[tuple[int, bytes]]) -> dict[bytes, list[int]]:
    ids: dict[bytes, list[int]] = {}
    for token, text in tokens:
        if MARKER not in text:
            ids.setdefault(text, []).append(token)
    return ids


def _states(index: Index, *, limit: int) -> list[int] | GrammarError:
    """The states of an index over bytes, or why they are no use."""
    states = [_first_state(index, _BYTES_END)]
    if not _leads_on(index, states[0], _BYTES_END):
        return _unsatisfiable("at all")
    seen = set(states)
    for state in states:
        following = {byte: index.get_next_state(state, byte) for byte in index.get_allowed_tokens(state) or ()}
        if following.keys() == {_BYTES_END} and not index.is_final_state(following[_BYTES_END]):
            message = "The pattern asks for U+0000, which outlines cannot write."
            return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message)
        new = set(following.values()) - seen - {None}
        seen |= new
        states += new
        if len(states) > limit:
            return _too_complex(f"it has more than {limit:,} states, the limit for this model's vocabulary")
    return states


def _too_complex(reason: str) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.TOO_COMPLEX,
        message=f"As an automaton this is too large: {reason}.",
        hint="use smaller repetitions, fewer options or optional properties, or another backend",
    )


def _unsatisfiable(which: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.UNSATISFIABLE, message=f"The pattern matches no text {which}.")


def _explained(error: ValueError) -> GrammarError:
    """What an error of the library means; raises it again if that is not known."""
    text = str(error)
    if "error building NFA" in text:
        kind, message = ErrorKind.INVALID_SPEC, "This is not a regular expression in the syntax of Rust's regex crate."
    elif "unsupported regex feature" in text or "start state" in text:
        kind, message = ErrorKind.UNSUPPORTED, "The pattern has an anchor or a boundary that outlines cannot compile."
    elif "incompatible with the regex" in text:
        kind, message = ErrorKind.UNSATISFIABLE, "The pattern leads where none of this model's tokens can go on."
    else:
        raise error
    return GrammarError(kind=kind, message=message, detail=text[:500])
