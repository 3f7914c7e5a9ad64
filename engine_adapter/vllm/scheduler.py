"""vLLM's schedulers, with requests that wait for their grammars held outside of ``schedule()``.

A held request is not in vLLM's queues. When its grammar is there, it is given to vLLM as if it came then, in its place
by time of arrival. When there will be none, or nobody wants it any more, it is given to vLLM and ended by vLLM in the
same call, so that all that vLLM does at the end of a request (connectors, metrics, ids for other processes) is done.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

import attrs
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.request import RequestStatus

from engine_adapter.embedded.cuts import Spelling
from engine_adapter.outcome import internal_error
from engine_adapter.vllm import causes, names
from engine_adapter.vllm.ahead import FirstRows
from engine_adapter.vllm.grammar import ConstraintGrammar, started
from engine_adapter.vllm.grammars import Grammars
from engine_adapter.vllm.held import Failed, Held, Ready
from engine_adapter.vllm.logs import show_records
from engine_adapter.vllm.settings import settings_of
from engine_adapter.vllm.stopping import Stopping, stopping
from engine_adapter.vllm.watching import Ends, Watching
from structout.errors import ErrorKind, GrammarError
from structout.grammar import Grammar
from structout.observability.logs import RequestLogger
from structout.result import Err, Ok, Result
from structout.vocabularies import from_huggingface

logger = logging.getLogger(__name__)

_Base: Any = object

_WITH_A_TEXT: Final = (None, FinishReason.STOP, FinishReason.LENGTH)
"""Who goes on, or was ended by vLLM in a step in which a stop string may have ended it before."""

_GIVEN_UP: Final = GrammarError(kind=ErrorKind.CANCELLED, message="nobody wants it any more")
_UNKNOWN: Final = GrammarError(kind=ErrorKind.ENGINE_FAILURE, message="vLLM has ended it as an error")


def scheduler_class(vllm_config: Any) -> Any:
    """The scheduler for a configuration. Raises `names.Unsupported` for what there is none for."""
    names.check(*names.ENGINE)
    if vllm_config.parallel_config.distributed_executor_backend == "external_launcher":
        message = "structout does not support the executor external_launcher: it has a scheduler on every rank, and one"
        raise names.Unsupported(f"{message} may have a grammar before another")
    return AsyncHoldingScheduler if vllm_config.scheduler_config.async_scheduling else HoldingScheduler


def open_grammars(vllm_config: Any, tokenizer: Any) -> Grammars:
    """The compile service of an engine core, for its model's vocabulary."""
    vocabulary = from_huggingface(tokenizer, padded_size=vllm_config.model_config.get_vocab_size())
    compact = bool(vllm_config.structured_outputs_config.disable_any_whitespace)
    settings, place = settings_of(vllm_config), vllm_config.parallel_config.data_parallel_rank_local or 0
    watching = Watching(settings, place)
    return Grammars(watching.registry(), vocabulary, settings, compact=compact, watching=watching)


def take_over(manager: Any, grammars: Grammars) -> None:
    """Has vLLM's ``StructuredOutputManager`` compile with ``grammars``, and fill the rows of a step together.

    Raises:
        Unsupported: it is not one that structout knows.
    """
    names.take_over(manager, grammars)
    names.fill_ahead(manager, FirstRows(grammars.vocabulary.bitmask_width).filled)


@attrs.frozen
class Going:
    """A sequence with a grammar, and what looks for its stop strings here."""

    grammar: ConstraintGrammar
    stopping: Stopping | None

    def ends_with(self) -> str | None:
        """The stop reason, if a stop string ends it."""
        cut = self.stopping.look(self.grammar.constraint) if self.stopping else None
        return cut.as_stop_reason() if cut else None


class Holding(_Base):  # type: ignore[misc]  # vLLM is not in the environment of mypy
    """The part that both of vLLM's schedulers get."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        show_records()
        self._held: Held[Any] = Held()
        self._refused: dict[str, GrammarError] = {}
        self._going: dict[str, Going] = {}
        self._ends = Ends()
        manager = self.structured_output_manager
        if not self.vllm_config.model_config.skip_tokenizer_init:
            grammars = open_grammars(self.vllm_config, manager.tokenizer)
            take_over(manager, grammars)
            grammars.watching.watch(blocked=self._held, ends=self._ends)
            self._spelling = Spelling(grammars.vocabulary)

    def add_request(self, request: Any) -> None:
        """Holds a request that has no grammar yet."""
        if request.request_id in self._held:
            self._held.join(request.request_id, request)
        elif (pending := names.pending_of(request)) is None or request.request_id in self.requests:
            super().add_request(request)
        else:
            self._held.hold(request.request_id, request, pending)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedules what has its grammar by now."""
        for ready in self._held.ready():
            self._promote(ready)
        return super().schedule(*args, **kwargs)

    def _promote(self, ready: Ready[Any]) -> None:
        first, *later = ready.parts
        match self._started(ready.request_id, first, ready.grammar):
            case Err(error):
                self._held.fail(ready.request_id, error)
                return
            case Ok(going):
                names.give(first, going.grammar)
                self._going[ready.request_id] = going
        first.status = RequestStatus.WAITING
        super().add_request(first)
        names.move_to_its_turn(self.waiting, first)
        for part in later:
            super().add_request(part)
        self._held.release(ready.request_id)

    def _started(self, request_id: str, request: Any, grammar: Grammar) -> Result[Going, GrammarError]:
        """A request's grammar before its first token. What is raised is this request's failure, not the engine's."""
        params, said = request.sampling_params, request.output_token_ids
        drafts = self.vllm_config.num_speculative_tokens
        try:
            result = started(grammar, params, max_drafts=drafts, refused=self._refused.__setitem__, said=said)
            return result.map(lambda begun: Going(begun, stopping(params, self._spelling, said)))
        except Exception as exc:
            RequestLogger(logger, request_id).exception("a request cannot be started")
            return Err(internal_error(exc))

    def update_from_output(self, *args: Any, **kwargs: Any) -> dict[int, Any]:
        """The step's outputs, in which everything that has failed says why."""
        self._refused.clear()  # what was refused on trial, when rows were filled
        ended = [self._end(failed) for failed in self._held.failed()]
        outputs: dict[int, Any] = super().update_from_output(*args, **kwargs)
        for client in outputs.values():
            for output in client.outputs:
                self._follow(output)
        for client_index, output in ended:
            outputs.setdefault(client_index, EngineCoreOutputs()).outputs.append(output)
        return outputs

    def _end(self, failed: Failed[Any]) -> tuple[int, Any]:
        """Ends a request that will have no grammar. Returns the client that is to be told, and what."""
        request = failed.parts[0]
        was_given_up = failed.error.kind is ErrorKind.CANCELLED
        status = RequestStatus.FINISHED_ABORTED if was_given_up else RequestStatus.FINISHED_ERROR
        RequestLogger(logger, failed.request_id).failed(failed.error)
        self._ends.add(failed.error)
        super().add_request(request)
        super().finish_requests(failed.request_id, status)
        self._held.release(failed.request_id)
        output = EngineCoreOutput(
            request_id=failed.request_id,
            new_token_ids=[],
            finish_reason=request.get_finished_reason(),
            stop_reason=causes.stop_reason(failed.error),
            events=request.take_events(),
            trace_headers=request.trace_headers,
        )
        return request.client_index, output

    def _follow(self, output: Any) -> None:
        """Ends what a stop string ends, and says why what has ended as an error did."""
        going = self._going.get(output.request_id)
        if going and output.finish_reason in _WITH_A_TEXT and (stop_reason := going.ends_with()):
            if output.finish_reason is None:
                super().finish_requests(output.request_id, RequestStatus.FINISHED_STOPPED)
            output.finish_reason, output.stop_reason = FinishReason.STOP, stop_reason
        if output.finish_reason is not None and self._is_over(output.request_id):
            error = self._why(output) if output.finish_reason is FinishReason.ERROR else None
            if self._going.pop(output.request_id, None):
                self._ends.add(error)

    def _is_over(self, request_id: str) -> bool:
        """Whether it was a request's last end: sessions to which text is added later have one at each turn."""
        request = self.requests.get(request_id)
        return request is None or request.is_finished()

    def _why(self, output: Any) -> GrammarError:
        """The cause of an output that ended as an error, which is given it if its grammar refused a token."""
        error = self._refused.pop(output.request_id, None)
        if error is None:
            return _UNKNOWN
        RequestLogger(logger, output.request_id).failed(error)
        output.stop_reason = causes.stop_reason(error)
        return error

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> list[Any]:
        """Ends requests, held or not. Of a held one, the compile is given up."""
        if request_ids is not None:
            request_ids = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        end = _GIVEN_UP if finished_status == RequestStatus.FINISHED_ABORTED else _UNKNOWN
        for parts in self._held.withdraw(request_ids):
            self._ends.add(end)
            super().add_request(parts[0])
        ended: list[Any] = super().finish_requests(request_ids, finished_status)
        for request in ended:
            if self._going.pop(request.request_id, None):
                self._ends.add(end)
        return ended

    def get_num_unfinished_requests(self) -> int:
        """Counts the held ones, so that vLLM goes on asking for steps."""
        held = len(self._held) if self.pause_state == PauseState.UNPAUSED else 0
        return int(super().get_num_unfinished_requests()) + held


class HoldingScheduler(Holding, Scheduler):  # type: ignore[misc]  # vLLM is not in the environment of mypy
    """For vLLM that schedules a step when the last one is done."""


class AsyncHoldingScheduler(Holding, AsyncScheduler):  # type: ignore[misc]  # vLLM is not in the environment of mypy
    """For vLLM that schedules a step while the last one runs."""
