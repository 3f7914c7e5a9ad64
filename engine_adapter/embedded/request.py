"""One request in the engine: what was asked, and the one field that says where it stands.

::

    Blocked ──▶ Waiting ──▶ Prefilling ──▶ Decoding ──▶ Ended
       │           ▲ │          │ │           │ │         ▲
       │           └─┼──────────┘─┼───────────┘ │         │   preempted: back to Waiting, its tokens kept
       └─────────────┴────────────┴─────────────┴─────────┘   failed, aborted or finished
"""

import operator
from collections.abc import Iterable
from typing import TypeAlias

import attrs

from engine_adapter.embedded.cuts import Cuts
from engine_adapter.embedded.detokenize import Detokenizer
from engine_adapter.embedded.pooling import Pool
from engine_adapter.outcome import Terminal, TokenLogprob
from engine_adapter.sampling import SamplingParams
from structout.constraint import Activation, Constraint
from structout.spec import GrammarSpec


def _frozen(tokens: Iterable[int]) -> tuple[int, ...]:
    """The tokens as plain integers, whatever held them and may change later; what is not that stays as it is."""
    try:
        return tuple(token if isinstance(token, bool) else operator.index(token) for token in tokens)
    except Exception:
        return tokens  # type: ignore[return-value]  # `admission` refuses it, with an error for the caller


def _tuple(values: object) -> object:
    """A list as a tuple; anything else as it is. A string stays one: its characters are no list of strings."""
    return tuple(values) if isinstance(values, list) else values


@attrs.frozen(kw_only=True)
class Request:
    """What a caller asks of the engine. Holds anything; `Engine.add` says what is wrong with it.

    Attributes:
        id: names the request in every event; unique among those that have not ended.
        prompt: token ids, at least one, of any kind of integer.
        max_tokens: most tokens to generate, at least 1.
        min_tokens: how many tokens come before a stop token or a stop string may end the text; a grammar that allows
            nothing else ends it before.
        sampling: how tokens are chosen.
        spec: the grammar; None for free text.
        backend: id of the backend that has to compile ``spec``; None for the first that takes it.
        stop_token_ids: what ends the text; the vocabulary's eos ids when not given, and none if it is empty. At least
            one beside a ``spec``, and at most 1,024.
        ignore_eos: whether the model's wish to end is ignored: the vocabulary's eos ids are tokens like others, and
            ``stop_token_ids`` alone end the text. With a ``spec`` they do too, where its grammar allows nothing else.
        stop: strings that end the text, at most 16 of 1 to 256 characters, wherever they are in tokens. With a grammar
            one counts only where what is left is a complete text of the grammar; elsewhere it is text like any other.
            The text ends before it. With a risky grammar (`Grammar.is_risky`) it has to begin between two tokens.
        include_stop: whether the text ends behind the stop string instead, which may not be asked of a risky grammar.
        activation: where the grammar starts to constrain; at the first token when not given.
        deadline_s: seconds for its grammar to be compiled; the compile service's own when not given.
        embed: whether the prompt's embedding is wanted and no text: it ends as `Finished` with a ``vector``, without a
            `Delta`. Has no ``spec`` then; what else is said of generating does not matter.
    """

    id: str
    prompt: tuple[int, ...] = attrs.field(converter=_frozen)
    max_tokens: int = 256
    min_tokens: int = 0
    sampling: SamplingParams = attrs.field(factory=SamplingParams)
    spec: GrammarSpec | None = None
    backend: str | None = None
    stop_token_ids: tuple[int, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_frozen))
    ignore_eos: bool = False
    stop: tuple[str, ...] = attrs.field(default=(), converter=_tuple)
    include_stop: bool = False
    activation: Activation | None = None
    deadline_s: float | None = None
    embed: bool = False

    def stops(self, eos_token_ids: Iterable[int]) -> tuple[int, ...]:
        """The tokens that may end its text, in a model with these eos ids."""
        if not self.ignore_eos:
            return tuple(eos_token_ids) if self.stop_token_ids is None else self.stop_token_ids
        own = () if self.spec is None else tuple(eos_token_ids)
        return (*own, *(self.stop_token_ids or ()))


@attrs.frozen
class Blocked:
    """Waits for its grammar; the promoter knows which."""


@attrs.frozen
class Waiting:
    """Can be scheduled: everything it needs is there but a KV row."""


@attrs.frozen
class Prefilling:
    """Has a KV row in which its first ``done`` tokens are computed."""

    done: int = 0


@attrs.frozen
class Decoding:
    """Has a KV row in which its tokens are computed, but for the last and those that were forced before it; each step
    adds one."""


@attrs.frozen
class Ended:
    """Is over, and the event that says so may not have been reported yet."""

    outcome: Terminal


State: TypeAlias = Blocked | Waiting | Prefilling | Decoding | Ended

_MOVES: dict[type[State], tuple[type[State], ...]] = {
    Blocked: (Waiting, Ended),
    Waiting: (Prefilling, Ended),
    Prefilling: (Prefilling, Decoding, Waiting, Ended),
    Decoding: (Waiting, Ended),
    Ended: (),
}


def moved(state: State, to: State) -> State:
    """``to``, if a request may go there from ``state``.

    Raises:
        ValueError: it may not: a bug of the engine. An ended request goes nowhere.
    """
    if type(to) not in _MOVES[type(state)]:
        raise ValueError(f"a request cannot move from {type(state).__name__} to {type(to).__name__}")
    return to


@attrs.frozen
class Told:
    """How much of a sequence events have delivered: tokens, and pieces of text."""

    tokens: int = 0
    pieces: int = 0


@attrs.frozen
class Standing:
    """Where a request stands, for people: the name of its state, and how many tokens it has generated."""

    state: str = Waiting.__name__.lower()
    tokens: int = 0


@attrs.define(eq=False)
class Sequence:
    """A request on its way through the engine. Only the engine's thread touches it.

    Attributes:
        request: what was asked.
        arrival: number in the order in which requests came.
        state: where it stands; assigned through `moved` alone.
        stop_token_ids: what ends it.
        detokenizer: turns tokens into text, up to a stop string.
        ignored_stops: of ``stop_token_ids`` those with which it ends only where its grammar allows nothing else.
        cuts: where a stop string may end it, if it has a grammar and stop strings.
        slot: its place in the sampler's batch, once it has one.
        tokens: what was generated, without the stop token.
        logprobs: of each of ``tokens``, if asked for.
        text: the piece of text that each of ``tokens`` completed; at the end one more, what was held back until then.
        constraint: its matcher; None for free text and while it is blocked.
        speaks: whether events deliver it: from its first token that was sampled on, or once it has finished. What is
            forced before that is held back: the request may fail yet, as one that has said nothing.
        told: how much of it events have delivered.
        misses: how often in a row its own bitmask row has missed its budget.
        pool: what its embedding is made of, if that is what it is for. It never decodes.
    """

    request: Request
    arrival: int
    state: State
    stop_token_ids: frozenset[int]
    detokenizer: Detokenizer
    ignored_stops: frozenset[int] = frozenset()
    cuts: Cuts | None = None
    slot: int | None = None
    tokens: list[int] = attrs.field(factory=list)
    logprobs: list[TokenLogprob] = attrs.field(factory=list)
    text: list[str] = attrs.field(factory=list)
    constraint: Constraint | None = None
    speaks: bool = False
    told: Told = Told()
    misses: int = 0
    pool: Pool | None = None

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def known(self) -> int:
        """How many tokens have to be in its KV row before the next can be sampled: prompt and generated."""
        return len(self.request.prompt) + len(self.tokens)

    def known_tokens(self, start: int, end: int) -> list[int]:
        """Its tokens from ``start`` up to ``end``, prompt and generated."""
        prompt, tokens = self.request.prompt, self.tokens
        return [*prompt[start:end], *tokens[max(0, start - len(prompt)) : max(0, end - len(prompt))]]

    @property
    def is_over(self) -> bool:
        return isinstance(self.state, Ended)

    @property
    def withheld(self) -> frozenset[int]:
        """The stop tokens that are not to be sampled next, if there is a choice."""
        return self.stop_token_ids if len(self.tokens) < self.request.min_tokens else self.ignored_stops

    @property
    def standing(self) -> Standing:
        """May be read from any thread."""
        return Standing(type(self.state).__name__.lower(), len(self.tokens))

    def may_end_at(self, cut: int) -> bool:
        """Whether a stop string may end its text behind the first ``cut`` bytes: anywhere, without a grammar."""
        if len(self.tokens) < self.request.min_tokens:
            return False
        if self.cuts is None or self.constraint is None:
            return True
        return self.cuts.allow(cut, self.constraint, self.tokens)

    def news_end(self) -> Told:
        """What will have been told once all that is new was."""
        return Told(len(self.tokens), len(self.text))

    @property
    def has_news(self) -> bool:
        """Whether there are tokens, or text, to be delivered."""
        return self.speaks and (len(self.tokens) > self.told.tokens or any(self.text[self.told.pieces :]))

    def move(self, to: State) -> None:
        self.state = moved(self.state, to)
