"""What one request asks of the sampler, checked once when the request comes in."""

import reprlib
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result

GREEDY_BELOW: Final = 1e-5
"""A temperature below this is greedy; dividing by it would overflow."""

MAX_LOGPROBS: Final = 20
"""Most alternatives a request may ask for at each position, as in the OpenAI API."""

MAX_BIASES: Final = 1024
"""Most tokens whose logits a request may change by ``logit_bias``."""

LogitBias: TypeAlias = tuple[tuple[int, float], ...]
"""What is added to the logits of which tokens, by token id."""

_INT31: Final = 2**31 - 1
_INT63: Final = 2**63 - 1


@attrs.frozen
class _Range:
    """The legal values of one parameter; ``text`` says them to the caller."""

    types: tuple[type, ...]
    low: float
    high: float
    text: str
    open_below: bool = False

    def allows(self, value: Any) -> bool:
        """Whether the type and the value are legal. bool is not a number here, and NaN is in no range."""
        right_type = isinstance(value, self.types) and not isinstance(value, bool)
        return right_type and self._contains(value)

    def plain(self, value: Any) -> Any:
        """A legal value, of the type that the field has."""
        return float(value) if float in self.types else int(value)

    def _contains(self, value: float) -> bool:
        return self.low <= value <= self.high and not (self.open_below and value == self.low)


@attrs.frozen
class _Biases:
    """The legal values of ``logit_bias``: pairs or a mapping, whose keys JSON makes strings of digits."""

    text: str

    def allows(self, value: Any) -> bool:
        """Whether the type, the tokens and the biases are legal. bool is not a number here, and NaN is in no range."""
        pairs = _pairs(value)
        return pairs is not None and len(pairs) <= MAX_BIASES and self._contains(pairs)

    def plain(self, value: Any) -> LogitBias:
        """Legal pairs, in the order of the token ids."""
        return tuple(sorted((int(token), float(bias)) for token, bias in _pairs(value) or ()))

    def _contains(self, pairs: list[tuple[Any, Any]]) -> bool:
        legal = all(_is_token(token) and _BIAS.allows(bias) for token, bias in pairs)
        return legal and len({int(token) for token, _ in pairs}) == len(pairs)


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(value, Mapping):
        return list(value.items())
    are_pairs = isinstance(value, tuple) and all(isinstance(each, tuple) and len(each) == 2 for each in value)
    return list(value) if are_pairs else None


def _is_token(token: Any) -> bool:
    if isinstance(token, str):
        return token.isascii() and token.isdecimal() and len(token) <= 10 and int(token) <= _INT31
    return isinstance(token, int) and not isinstance(token, bool) and 0 <= token <= _INT31


_NUMBER: Final = (float, int)
_BIAS: Final = _Range(_NUMBER, -100.0, 100.0, "a number from -100 to 100")
_BIASES: Final = _Biases(f"numbers from -100 to 100 by token id, of at most {MAX_BIASES} tokens")
_PENALTY: Final = _Range(_NUMBER, -2.0, 2.0, "a number from -2 to 2, 0 being none")
_RANGES: Mapping[str, _Range | _Biases] = MappingProxyType(
    {
        "temperature": _Range(_NUMBER, 0.0, 100.0, "a number from 0 (greedy) to 100"),
        "top_k": _Range((int,), 0, _INT31, f"an integer from 1 to {_INT31}, or 0 or -1 (off)"),
        "top_p": _Range(_NUMBER, 0.0, 1.0, "a number above 0, up to 1 (off)", open_below=True),
        "min_p": _Range(_NUMBER, 0.0, 1.0, "a number from 0 (off) to 1"),
        "presence_penalty": _PENALTY,
        "frequency_penalty": _PENALTY,
        "repetition_penalty": _Range(_NUMBER, 0.01, 100.0, "a number from 0.01 to 100, 1 being none"),
        "logit_bias": _BIASES,
        "seed": _Range((int,), -_INT63 - 1, _INT63, f"an integer from {-_INT63 - 1} to {_INT63}"),
        "logprobs": _Range((int,), 0, MAX_LOGPROBS, f"an integer from 0 to {MAX_LOGPROBS}"),
    }
)
_OPTIONAL: Final = ("seed", "logprobs")


def _frozen(value: LogitBias | Mapping[int, float]) -> LogitBias:
    """What is legal as pairs; anything else as it is, for the check to refuse."""
    return _BIASES.plain(value) if _BIASES.allows(value) else value  # type: ignore[return-value]


@attrs.frozen(kw_only=True)
class SamplingParams:
    """How one request's tokens are chosen. An illegal value raises ValueError; `parse` is for what clients send.

    In this order: mask, bias and penalties, temperature, top-k, top-p, min-p, renormalise; `engine_adapter.sampling`
    states each exactly.

    Attributes:
        temperature: divides the logits; 0 (and anything below `GREEDY_BELOW`) takes the most likely allowed token.
        top_k: keep the tokens with the ``top_k`` largest logits; 0 is off.
        top_p: keep the most likely tokens up to this share of the probability; 1 is off.
        min_p: keep tokens at least this share as likely as the most likely one; 0 is off.
        presence_penalty: subtracted from the logits of tokens that the request has generated.
        frequency_penalty: subtracted as often as it has generated the token.
        repetition_penalty: divides the positive logits of tokens in its prompt or among those it has generated, and
            multiplies the others; 1 is off.
        logit_bias: what is added to the logits of which tokens; a mapping may be given. It may not name a token twice.
        seed: of the request's own random numbers, 64 bits signed; None draws one from the operating system.
        logprobs: how many of the most likely tokens to report beside the sampled one's log-probability; 0 reports
            the sampled token's only, None nothing.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: LogitBias = attrs.field(default=(), converter=_frozen)
    seed: int | None = None
    logprobs: int | None = None

    def __attrs_post_init__(self) -> None:
        for name in _RANGES:
            value = getattr(self, name)
            if not (value is None and name in _OPTIONAL) and (error := _check(name, value)):
                raise ValueError(error.message)

    @classmethod
    def parse(cls, **fields: object) -> Result["SamplingParams", GrammarError]:
        """Parameters as a client sent them, decoded from JSON or protobuf.

        None stands for the default, ``top_k`` -1 for 0, and an integer may stand for a float. Anything else that is
        not legal is an INVALID_SPEC whose message names the parameter, its value and the legal range, and whose
        ``keyword`` is the parameter: an unknown name, a wrong type, a bool, NaN, an integer too large.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        if type(top_k := given.get("top_k")) is int and top_k == -1:
            given["top_k"] = 0
        for name, value in given.items():
            if error := _check(name, value):
                return Err(error)
        plain: dict[str, Any] = {name: _RANGES[name].plain(value) for name, value in given.items()}
        return Ok(cls(**plain))

    @property
    def is_greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW

    @property
    def penalizes(self) -> bool:
        """Whether the tokens so far change what comes next by a penalty."""
        return (self.presence_penalty, self.frequency_penalty, self.repetition_penalty) != (0.0, 0.0, 1.0)

    @property
    def changes_logits(self) -> bool:
        """Whether there is a bias or a penalty."""
        return self.penalizes or bool(self.logit_bias)

    def seeded(self) -> "SamplingParams":
        """These parameters with a seed: their own, or 63 bits from the operating system."""
        return self if self.seed is not None else attrs.evolve(self, seed=secrets.randbits(63))


def _check(name: str, value: object) -> GrammarError | None:
    if (legal := _RANGES.get(name)) is None:
        return GrammarError(
            kind=ErrorKind.INVALID_SPEC,
            message=f"there is no sampling parameter {reprlib.repr(name)}",
            keyword=name,
            hint=f"use {', '.join(_RANGES)}",
        )
    if legal.allows(value):
        return None
    message = f"{name} has to be {legal.text}, not {_shown(value)}"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=name)


def _shown(value: object) -> str:
    """The value in a message: short, whatever was sent (the text of a huge integer would itself be an error)."""
    match value:
        case int() if value.bit_length() > 64:
            return f"an integer of {value.bit_length()} bits"
        case None | bool() | int() | float() | str():
            return reprlib.repr(value)
        case _:
            return f"a value of type {type(value).__name__}"
