"""Whether something can be a request of this model: what the engine checks before it takes one."""

from collections.abc import Callable
from typing import Any, Final

import attrs

from engine_adapter.embedded.request import Request
from engine_adapter.sampling import SamplingParams
from structout.compile.arguments import is_duration
from structout.constraint import AfterTokens, AtOffset
from structout.errors import ErrorKind, GrammarError, describe_exception, reraise_users_interrupt
from structout.spec import SPEC_TYPES
from structout.vocabulary import Vocabulary


def objection(request: object, vocabulary: Vocabulary, *, max_len: int, can_embed: bool = True) -> GrammarError | None:
    """Why the engine cannot take ``request``; None if it can.

    An INVALID_SPEC whose ``keyword`` is the field at fault; UNSUPPORTED for an embedding, if the model ``can_embed``
    nothing. Its message holds no foreign object's text, and no huge integer's. Never raises, whatever it is given.
    """
    try:
        if not isinstance(request, Request):
            return invalid(f"a request has to be a Request, not {_shown(request)}")
        return _wrong_type(request) or _unfit(request, vocabulary, max_len) or _no_embedding(request, can_embed)
    except BaseException as exc:
        reraise_users_interrupt(exc)
        return attrs.evolve(invalid("the request cannot be read"), detail=describe_exception(exc))


def invalid(message: str, keyword: str | None = None) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=keyword)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_token_ids(value: object) -> bool:
    # `Request` freezes whatever holds integers; a tuple of anything else, or what is no tuple, was not that.
    return type(value) is tuple and all(map(_is_integer, value))


MAX_STOPS: Final = 16
MAX_STOP_LENGTH: Final = 256
MAX_STOP_TOKENS: Final = 1024
"""Each costs a sequence time in every step in which it may not end yet."""


def _are_stop_tokens(value: Any) -> bool:
    return _are_token_ids(value) and len(value) <= MAX_STOP_TOKENS


def _are_stops(value: Any) -> bool:
    return type(value) is tuple and len(value) <= MAX_STOPS and all(map(_is_stop, value))


def _is_stop(value: Any) -> bool:
    return type(value) is str and 1 <= len(value) <= MAX_STOP_LENGTH and not any(map(_is_surrogate, value))


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


@attrs.frozen
class _Rule:
    """What one field may be; ``text`` says it to the caller."""

    field: str
    allows: Callable[[Any], bool]
    text: str
    optional: bool = False


_RULES: Final = (
    # Not a subclass: its hash and its equality, which the engine's tables rely on, could be anything.
    _Rule("id", lambda value: type(value) is str, "a string"),
    _Rule("prompt", _are_token_ids, "a sequence of token ids, which are integers"),
    _Rule("max_tokens", lambda value: _is_integer(value) and value >= 1, "an integer, 1 at least"),
    _Rule("min_tokens", lambda value: _is_integer(value) and value >= 0, "an integer, 0 at least"),
    _Rule("sampling", lambda value: isinstance(value, SamplingParams), "SamplingParams"),
    _Rule("spec", lambda value: isinstance(value, SPEC_TYPES), "one of the kinds of grammar", optional=True),
    _Rule("backend", lambda value: isinstance(value, str), "the id of a backend, a string", optional=True),
    _Rule("stop_token_ids", _are_stop_tokens, f"at most {MAX_STOP_TOKENS} token ids, which are integers", True),
    _Rule("ignore_eos", lambda value: isinstance(value, bool), "true or false"),
    _Rule("stop", _are_stops, f"at most {MAX_STOPS} strings of 1 to {MAX_STOP_LENGTH} characters that UTF-8 can write"),
    _Rule("include_stop", lambda value: isinstance(value, bool), "true or false"),
    _Rule("activation", lambda value: isinstance(value, AtOffset | AfterTokens), "AtOffset or AfterTokens", True),
    _Rule("embed", lambda value: isinstance(value, bool), "true or false"),
    _Rule("deadline_s", is_duration, "a finite number of seconds above 0", optional=True),
)


def _wrong_type(request: Request) -> GrammarError | None:
    for rule in _RULES:
        value = getattr(request, rule.field)
        if not (value is None and rule.optional) and not rule.allows(value):
            return invalid(f"{rule.field} has to be {rule.text}, not {_shown(value)}", rule.field)
    return None


def _unfit(request: Request, vocabulary: Vocabulary, max_len: int) -> GrammarError | None:
    """What does not fit the model, or another field."""
    stops = request.stops(vocabulary.eos_token_ids)
    if not 1 <= len(request.prompt) <= max_len:
        return invalid(f"the prompt has {len(request.prompt)} tokens; it may have 1 to {max_len}", "prompt")
    if request.min_tokens > request.max_tokens:
        return invalid("min_tokens has to be max_tokens at most", "min_tokens")
    if request.spec is not None and not stops:
        return invalid("a grammar needs a stop token, or nothing could end its text", "stop_token_ids")
    size = vocabulary.padded_size
    biased = tuple(token for token, _ in request.sampling.logit_bias)
    for name, tokens in (("prompt", request.prompt), ("stop_token_ids", stops), ("logit_bias", biased)):
        if outside := [token for token in tokens if not 0 <= token < size]:
            return invalid(f"{name} has {_shown(outside[0])}, which is not one of the model's {size} token ids", name)
    return None


def _no_embedding(request: Request, can_embed: bool) -> GrammarError | None:
    if request.embed and request.spec is not None:
        return invalid("an embedding is no text, and has no grammar", "spec")
    if request.embed and not can_embed:
        message = "this model makes no embeddings"
        return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, keyword="embed")
    return None


def _shown(value: object) -> str:
    """The value in a message if it is a short number, else what it is: other reprs may raise."""
    if type(value) is tuple and (others := [each for each in value if not _is_integer(each)]):
        return f"a tuple with {_shown(others[0])}"
    if type(value) is tuple:
        return f"{len(value):,} of them"
    if type(value) is str:
        return f"a string of {len(value)} characters"
    if type(value) is int:
        return repr(value) if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    return repr(value) if type(value) is float else f"a value of type {type(value).__name__}"
