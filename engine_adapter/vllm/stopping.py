"""Stop strings of requests with a grammar: they end a text only where it is complete.

vLLM looks for stop strings in its front end, which knows no grammar, and cuts a document wherever one occurs. Here the
engine core looks for those of a request that has one, and tells the front end where to cut; the front end looks for
none of its own, and holds back what may be the beginning of one as ever.

A front end says with `handed_over` that it waits to be told. For others, vLLM's own way stays.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from engine_adapter.embedded.cuts import Cuts, Spelling
from engine_adapter.embedded.stops import Found, StopScanner
from engine_adapter.vllm import names
from structout.constraint import Constraint
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result

_HANDED_OVER: Final = "structout_stops"
"""The ``extra_args`` that says that the front end waits to be told where to stop."""

_MARK: Final = "structout-cut:"


@attrs.frozen
class Cut:
    """Where a text ends because of a stop string.

    Attributes:
        stop: the stop string.
        behind: how many characters of the text, as far as it goes with the token that has completed the stop string,
            are behind the end.
        surplus: how many tokens came after that one in the same step.
    """

    stop: str
    behind: int
    surplus: int

    def as_stop_reason(self) -> str:
        """It travels as the ``stop_reason`` of an output, as a cause does."""
        return _MARK + json.dumps(attrs.astuple(self))


def cut_of(stop_reason: object) -> Cut | None:
    """The inverse of `Cut.as_stop_reason`; None for what is another reason."""
    if not isinstance(stop_reason, str) or not stop_reason.startswith(_MARK):
        return None
    return Cut(*json.loads(stop_reason.removeprefix(_MARK)))


# ---- in the engine core ---------------------------------------------------------------------------------------------


class Stopping:
    """Looks for the stop strings of one sequence in what its constraint accepts.

    Args:
        sampling_params: vLLM's.
        spelling: of the vocabulary.
        said: all tokens of the sequence so far; its owner appends to it.
    """

    def __init__(self, sampling_params: Any, spelling: Spelling, said: Sequence[int]) -> None:
        self._scanner = StopScanner(sampling_params.stop)
        self._includes = bool(sampling_params.include_stop_str_in_output)
        self._min_tokens = int(sampling_params.min_tokens)
        self._spelling = spelling
        self._said = said
        # What waits for a step's bitmasks can wait for this as well.
        self._cuts = Cuts(spelling, waits=True)
        self._taken = 0
        self._text = bytearray()

    def look(self, constraint: Constraint) -> Cut | None:
        """The first place where a stop string ends the text, among those that the tokens have come to that were
        accepted since the last call."""
        tokens = constraint.tokens
        new, self._taken = tokens[self._taken :], len(tokens)
        for token in new:
            self._cuts.behind(token)
        for place, token in enumerate(new):
            surplus = len(new) - place - 1
            data = self._spelling.bytes_of(token)
            self._text += data
            for found in self._scanner.push(data):
                if len(self._said) - surplus > self._min_tokens and self._ends(found, constraint, tokens):
                    return self._cut(found, surplus)
        return None

    def _ends(self, found: Found, constraint: Constraint, tokens: Sequence[int]) -> bool:
        return self._cuts.allow(self._end(found), constraint, tokens)

    def _end(self, found: Found) -> int:
        return found.end if self._includes else found.start

    def _cut(self, found: Found, surplus: int) -> Cut:
        # Where the last character is not complete, the front end has not shown it yet.
        behind = bytes(self._text[self._end(found) :]).decode(errors="ignore")
        return Cut(found.stop, len(behind), surplus)


def stopping(sampling_params: Any, spelling: Spelling, said: Sequence[int]) -> Stopping | None:
    """What looks for a request's stop strings here; None if the front end does, or there are none."""
    return Stopping(sampling_params, spelling, said) if _is_ours(sampling_params) else None


def undone(sampling_params: Any) -> int:
    """How many tokens are taken back, at most, to try out whether the text before a stop string is complete."""
    return max((len(stop.encode()) + 1 for stop in sampling_params.stop), default=0) if _is_ours(sampling_params) else 0


def _is_ours(sampling_params: Any) -> bool:
    return bool((sampling_params.extra_args or {}).get(_HANDED_OVER))


# ---- in the front end -----------------------------------------------------------------------------------------------


def handed_over(sampling_params: Any, *, has_grammar: bool) -> Result[None, GrammarError]:
    """Says in the parameters that the front end waits to be told where a request stops, if that has a grammar and stop
    strings, and takes it back if it has not; an error for stop strings that no text can have."""
    extra = getattr(sampling_params, "extra_args", None) or {}
    if has_grammar and sampling_params.stop:
        if not all(map(_is_text, sampling_params.stop)):
            message = "stop strings have to be text that UTF-8 can write"
            return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword="stop"))
        sampling_params.extra_args = {**extra, _HANDED_OVER: True}
    elif _HANDED_OVER in extra:  # a client's own idea, or left by another request with the same parameters
        sampling_params.extra_args = {name: value for name, value in extra.items() if name != _HANDED_OVER}
    return Ok(None)


def _is_text(stop: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in stop)


def waiting(from_new_request: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's ``IncrementalDetokenizer.from_new_request``, for requests whose stop strings were handed over."""

    def waiting_for(tokenizer: Any, request: Any) -> Any:
        detokenizer = from_new_request(tokenizer=tokenizer, request=request)
        if _is_ours(request.sampling_params):
            names.stop_looking(detokenizer)
        return detokenizer

    return waiting_for


def cutting(process_outputs: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's ``OutputProcessor.process_outputs``, with texts cut where the engine core says."""

    def processing(self: Any, engine_core_outputs: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        for output in engine_core_outputs:
            cut = cut_of(output.stop_reason)
            if cut and (detokenizer := names.detokenizer_of(self, output.request_id)):
                names.end_text(detokenizer, cut.stop, behind=cut.behind, surplus=cut.surplus)
        return process_outputs(self, engine_core_outputs, *args, **kwargs)

    return processing
