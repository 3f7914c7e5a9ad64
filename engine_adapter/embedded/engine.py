"""The embedded engine: small, real, and complete. One request, followed through it::

    add        checked; its grammar is submitted to the compile service; it is Blocked (or Waiting, if it is free text)
    step       1. promote   its grammar is ready: Waiting. Or failed: Ended, with the cause
               2. plan      a KV row is free: Prefilling. Or it has to give its KV row up: Waiting again (`Scheduler`)
               3. launch    the model's forward pass: a chunk of its prompt, behind the last of them Decoding;
                            then a token a step (`Forward`), while
               4. fill      its bitmask is written on another thread
               5. sample    one token from its logits, its bitmask and its own random numbers
               6. accept    its matcher moves on; a stop token or the last token: Ended; where the grammar forces what
                            follows, that is taken too (`Forcing`), to be computed in the next step
               7. report    the step's return value carries its new tokens, and its end; then all it held is given back

A request's state says all about it. What a step reports is derived from the states, and a request is forgotten only
when the report that carries its end is complete. So an exception between any two lines loses nothing, repeats nothing,
and ends at most the requests that it concerns. What lists requests besides is an index, and may hold too many:

- ``_claims``: each id from `add` until its end was reported; decides which ids are taken.
- ``_sequences``: the sequences of those ids, once a step has taken them from the inbox.
- the promoter and the scheduler: an entry counts while its sequence is Blocked, or Waiting to Decoding.
- ``_touched``: what the report looks at.
"""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol

import attrs

from engine_adapter.embedded.admission import invalid, objection
from engine_adapter.embedded.cuts import Cuts, Spelling
from engine_adapter.embedded.detokenize import Detokenizer
from engine_adapter.embedded.embedding import embedded
from engine_adapter.embedded.forcing import Canonical, Forcing
from engine_adapter.embedded.forward import Computed, Forward, Late, NewToken
from engine_adapter.embedded.model import ModelRunner, SupportsPooling
from engine_adapter.embedded.pooling import Pool
from engine_adapter.embedded.request import Blocked, Ended, Request, Sequence, Standing, Told, Waiting
from engine_adapter.embedded.scheduler import Plan, Scheduler
from engine_adapter.embedded.starting import started
from engine_adapter.filling import Filler
from engine_adapter.outcome import (
    Aborted,
    Delta,
    Failed,
    Finished,
    FinishReason,
    Outcome,
    Terminal,
    Usage,
    internal_error,
    too_slow,
)
from engine_adapter.promotion import Decision, PendingResource, Promoter
from engine_adapter.terminal import TerminalRule, checked, usable
from structout.backend import Status
from structout.errors import GrammarError, reraise_users_interrupt
from structout.grammar import Grammar
from structout.observability.logs import RequestLogger
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@attrs.frozen
class Event:
    """Something about one request: new tokens, or its end."""

    request_id: str
    outcome: Outcome


@attrs.frozen
class StepReport:
    """All that one step has to say. A request's terminal event is its last, and comes exactly once."""

    step: int
    events: tuple[Event, ...] = ()


@attrs.frozen
class Abort:
    """A request to abort, in the engine's inbox."""

    request_id: str


@attrs.frozen
class Addition:
    """A new request, in the engine's inbox, and its grammar if it has one."""

    sequence: Sequence
    pending: PendingResource[Grammar] | None


class GrammarService(Protocol):
    """What the engine needs of a compile service; `structout.compile.CompileService` is one."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What it compiles for."""
        ...

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> PendingResource[Grammar]:
        """Asks for a grammar; returns at once and never raises."""
        ...


class Engine:
    """Generates for many requests at once.

    `add` and `abort` may be called from any thread; `step` from one at a time. None of them raises because of what a
    request, a backend or the model does.

    Args:
        runner: the model's forward pass and its KV rows.
        service: compiles grammars; its vocabulary is the model's.
        step_tokens: most tokens that one step computes; bounds how long a long prompt holds up the others.
        kv_tokens: most tokens that all KV rows may hold together; what the runner has room for when not given.
        mask_budget_s: how long a step waits for bitmasks once the model is done, in seconds; who is late sits it out.
        mask_entries: how many recent bitmasks the model's device keeps, so that they are not sent again. When not
            given, 256, and none where the device is the CPU, which reads them where they were filled.
        max_misses: how often in a row a request's own bitmask may miss that budget; once more, and the request fails
            with TIMED_OUT. Steps in which it waits for others that share its native call do not count.
        terminal_rule: what a request has to end with to be `Finished`.
        canonical: the model's tokenizer, for tokens that grammars force: these are not sampled. None to sample all.
        clock: tells seconds; embeddings share the engine's time with what generates by it.

    Attributes:
        forced_tokens: how many tokens were appended without being sampled.
    """

    def __init__(
        self,
        runner: ModelRunner,
        service: GrammarService,
        *,
        step_tokens: int = 256,
        kv_tokens: int | None = None,
        mask_budget_s: float = 0.05,
        mask_entries: int | None = None,
        max_misses: int = 8,
        terminal_rule: TerminalRule = usable,
        canonical: Canonical | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.vocabulary = service.vocabulary
        if runner.logit_width != self.vocabulary.padded_size:
            raise ValueError(
                f"the model has {runner.logit_width} logits, the vocabulary {self.vocabulary.padded_size}: "
                "load the vocabulary with padded_size=runner.logit_width"
            )
        self._spelling = Spelling(self.vocabulary)
        self._runner = runner
        self._max_misses = max_misses
        self._terminal_rule = terminal_rule
        self._forcing = Forcing(canonical)
        self.forced_tokens = 0
        self._service = service
        self._woken = threading.Event()
        self._promoter: Promoter[str] = Promoter(self.wake)
        capacity = runner.max_rows * runner.max_len if kv_tokens is None else kv_tokens
        self.scheduler = Scheduler(runner, step_tokens=step_tokens, kv_tokens=capacity)
        self._clock = clock
        self._forward = Forward(
            runner,
            self.vocabulary.bitmask_width,
            mask_budget_s=mask_budget_s,
            mask_entries=mask_entries,
            clock=clock,
        )
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._claims: dict[str, bool] = {}  # whether it was aborted; written under the lock
        self._inbox: deque[Addition | Abort] = deque()
        self._sequences: dict[str, Sequence] = {}
        self._touched: dict[str, Sequence] = {}
        self._step = 0

    # ---- from any thread ---------------------------------------------------------------------------------------

    def add(self, request: Request) -> Result[None, GrammarError]:
        """Takes a request, or says why it cannot be one. Once taken, it ends with an event of `step`."""
        can_embed = isinstance(self._runner, SupportsPooling)
        if error := objection(request, self.vocabulary, max_len=self._runner.max_len, can_embed=can_embed):
            return Err(error)
        with self._lock:
            if request.id in self._claims:
                return Err(invalid("there is a request with this id already", "id"))
            self._claims[request.id] = False
        try:
            addition = Addition(self._sequence(request), self._submit(request))
        except BaseException as exc:
            self._release_claim(request.id)
            reraise_users_interrupt(exc)
            RequestLogger(logger, request.id).exception("a request could not be submitted")
            return Err(internal_error(exc))
        self._inbox.append(addition)
        self.wake()
        return Ok(None)

    def _submit(self, request: Request) -> PendingResource[Grammar] | None:
        if request.spec is None:
            return None
        return self._service.submit(request.spec, backend=request.backend, deadline_s=request.deadline_s)

    def _sequence(self, request: Request) -> Sequence:
        stops = frozenset(request.stops(self.vocabulary.eos_token_ids))
        return Sequence(
            request=request,
            arrival=next(self._arrivals),
            state=Waiting() if request.spec is None else Blocked(),
            stop_token_ids=stops,
            ignored_stops=stops - set(request.stop_token_ids or ()) if request.ignore_eos else frozenset(),
            detokenizer=Detokenizer(self.vocabulary.token, request.stop, include_stop=request.include_stop),
            cuts=Cuts(self._spelling) if request.spec is not None and request.stop else None,
            pool=Pool() if request.embed else None,
        )

    def _release_claim(self, request_id: str) -> None:
        with self._lock:
            self._claims.pop(request_id, None)

    def abort(self, request_id: str) -> None:
        """Ends a request with `Aborted`, wherever it is; nothing if there is none, or it has ended."""
        with self._lock:
            if not isinstance(request_id, str) or request_id not in self._claims:
                return
            self._claims[request_id] = True  # remembered for an `add` that is not through
            self._inbox.append(Abort(request_id))
        self.wake()

    def wake(self) -> None:
        """Has `wait_for_work` return, the next call of it too: for whoever steps has something else to look at."""
        self._woken.set()

    def wait_for_work(self, timeout_s: float | None = None) -> bool:
        """Blocks until a step would do something, or until `wake`, at most ``timeout_s`` seconds. Returns whether a
        step would do something.

        Requests, aborts and grammars that become ready wake it: nobody needs a time-out in order to miss nothing.
        """
        if not self.has_work:
            self._woken.wait(timeout_s)
            # Cleared before anything is looked at: what happens from now on is seen, or ends the next wait.
            self._woken.clear()
        return self.has_work

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now; blocked requests alone give it nothing to do."""
        return bool(self._inbox or self._promoter.has_signals or self._touched or self.scheduler.has_work)

    @property
    def filler(self) -> Filler:
        """What fills the bitmasks: to be watched."""
        return self._forward.filler

    @property
    def blocked(self) -> Sized:
        """The requests that wait for their grammars: to be watched."""
        return self._promoter

    @property
    def unfinished(self) -> int:
        """How many requests were taken and have not ended."""
        return len(self._claims)

    def standings(self) -> dict[str, Standing]:
        """How the requests stand that a step has seen, by id, a moment ago. From any thread."""
        # Copied first, in one operation of the interpreter: a step may add to them meanwhile.
        return {request_id: sequence.standing for request_id, sequence in self._sequences.copy().items()}

    def close(self) -> None:
        """Ends the threads that fill bitmasks. The compile service belongs to the caller."""
        self._forward.close()

    # ---- the step ----------------------------------------------------------------------------------------------

    def step(self) -> StepReport:
        """One step of everything that can move. Never raises for what requests, backends or the model do."""
        self._step += 1
        self._take_inbox()
        self._promote()
        self._advance()
        return self._report()

    @contextmanager
    def _concerning(self, sequences: Iterable[Sequence]) -> Iterator[None]:
        """Whatever is raised in the block is the end of these sequences, and of nothing else.

        ``sequences`` is read only then. The user's own Ctrl-C ends them too, and goes on.
        """
        concerned: list[Sequence] = []
        try:
            yield
        except BaseException as exc:
            for sequence in sequences:
                self._end(sequence, Failed(internal_error(exc)))
                concerned.append(sequence)
            reraise_users_interrupt(exc)
            log = RequestLogger(logger, concerned[0].id) if len(concerned) == 1 else logger
            log.exception("something failed in step %d", self._step)

    def _end(self, sequence: Sequence, outcome: Terminal) -> None:
        """The one way to end. Frees nothing: this step's report tells the end, and then `_forget` gives all back."""
        if not sequence.is_over:
            self._touched[sequence.id] = sequence
            sequence.move(Ended(outcome))

    def _take_inbox(self) -> None:
        while self._inbox:
            match self._inbox[0]:
                case Addition(sequence, pending):
                    with self._concerning([sequence]):
                        if sequence.id not in self._sequences:
                            self._admit(sequence, pending)
                case Abort(request_id) if aborted := self._sequences.get(request_id):
                    with self._concerning([aborted]):
                        self._end(aborted, Aborted())
            self._inbox.popleft()

    def _admit(self, sequence: Sequence, pending: PendingResource[Grammar] | None) -> None:
        self._sequences[sequence.id] = sequence
        if self._claims[sequence.id]:
            self._end(sequence, Aborted())
        sequence.slot = self._forward.sampling.join(sequence.request.sampling, sequence.request.prompt)
        if pending is None:
            self.scheduler.add(sequence)
        else:
            self._promoter.block(sequence.id, [pending])

    def _promote(self) -> None:
        decisions: list[Decision[str]] = []
        with self._concerning(each for each in self._sequences.values() if isinstance(each.state, Blocked)):
            decisions = self._promoter.decided()
        for decision in decisions:
            sequence = self._sequences.get(decision.key)
            with self._concerning([sequence] if sequence else []):
                if sequence and isinstance(sequence.state, Blocked):
                    self._move_on(sequence, decision)
                self._promoter.settle(decision.key)

    def _move_on(self, sequence: Sequence, decision: Decision[str]) -> None:
        match started(sequence, decision):
            case Err(error):
                self._end(sequence, Failed(error))
            case Ok(constraint):
                sequence.constraint = constraint
                self._take_forced(sequence)
                if sequence.is_over:
                    return
                # Queued first: interrupted here, it is still Blocked, and decided again; never Waiting in no queue.
                self.scheduler.add(sequence)
                sequence.move(Waiting())

    def _advance(self) -> None:
        """Plans and computes. What cannot be laid to one request's account ends all that it could concern."""
        plan: Plan | None = None
        planned: list[Sequence] = []
        with self._concerning(self.scheduler.sequences()):
            plan = self.scheduler.plan()
            planned = plan.sequences()
        if plan is not None and planned:
            with self._concerning(planned):
                began = self._clock()
                computed = self._forward.compute(plan)
                self._take_all(computed)
                self.scheduler.spent(computed.pooled_s, self._clock() - began - computed.pooled_s)

    def _take_all(self, computed: Computed) -> None:
        for sequence, error in computed.failed:
            self._end(sequence, Failed(error))
        for late in computed.late:
            with self._concerning([late.sequence]):
                self._sit_out(late)
        for pooled in computed.pooled:
            with self._concerning([pooled]):
                self._take_vector(pooled)
        for new in computed.tokens:
            with self._concerning([new.sequence]):
                self._touched[new.sequence.id] = new.sequence
                self._take(new)

    def _take_vector(self, sequence: Sequence) -> None:
        self._end(sequence, embedded(sequence, self._terminal_rule))

    def _sit_out(self, late: Late) -> None:
        """Leaves a sequence whose bitmask was late out of this step; ends it if it missed too often in a row."""
        sequence = late.sequence
        sequence.misses += late.has_missed
        if sequence.misses > self._max_misses:
            return self._end(sequence, Failed(too_slow(sequence.misses)))
        return self.scheduler.take_back(sequence)

    def _take(self, new: NewToken) -> None:
        """Accepts one sampled token, and what it forces; ends the sequence if it was its last, or was refused."""
        sequence, token, constraint = new.sequence, new.token, new.sequence.constraint
        sequence.misses = 0
        if sequence.cuts is not None and constraint is not None:
            sequence.cuts.before(token, is_complete=constraint.is_accepting)
        if constraint is not None and (status := constraint.accept(token)) is not Status.OK:
            return self._end(sequence, Failed(constraint.error_for(status, token=token)))
        if token in sequence.stop_token_ids:
            return self._finish(sequence, FinishReason.STOP, token)
        sequence.speaks = True
        sequence.logprobs += [new.logprob] if new.logprob else []
        self._append(sequence, token)
        return self._take_forced(sequence)

    def _take_forced(self, sequence: Sequence) -> None:
        """Appends what has to follow, as far as the matcher takes it; ends the sequence if its last token is there."""
        constraint = sequence.constraint
        for token in self._forcing.tokens(sequence):
            if constraint is None or sequence.is_over or constraint.accept(token) is not Status.OK:
                return
            if sequence.cuts is not None:
                sequence.cuts.before(token, is_complete=False)
            self.forced_tokens += 1
            self._append(sequence, token)

    def _append(self, sequence: Sequence, token: int) -> None:
        """Appends a token that was accepted and is text; ends the sequence if it was its last."""
        sequence.tokens.append(token)
        sequence.text.append(sequence.detokenizer.push(token, sequence.may_end_at))
        if sequence.detokenizer.stop_string is not None:
            self._finish(sequence, FinishReason.STOP)
        elif len(sequence.tokens) >= sequence.request.max_tokens or sequence.known > self._runner.max_len:
            self._finish(sequence, FinishReason.LENGTH)

    def _finish(self, sequence: Sequence, reason: FinishReason, stop_token_id: int | None = None) -> None:
        sequence.text.append(sequence.detokenizer.finish())
        generated = len(sequence.tokens) + (stop_token_id is not None)
        finished = Finished(
            text="".join(sequence.text),
            token_ids=tuple(sequence.tokens),
            reason=reason,
            usage=Usage(prompt_tokens=len(sequence.request.prompt), completion_tokens=generated),
            stop_token_id=stop_token_id,
            stop_string=sequence.detokenizer.stop_string,
        )
        constraint = sequence.constraint
        complete = None if constraint is None else finished.stop_string is not None or constraint.is_accepting
        if constraint is not None and constraint.error is not None:  # that could not be read
            return self._end(sequence, Failed(constraint.error))
        outcome = checked(finished, complete=complete, rule=self._terminal_rule)
        sequence.speaks |= isinstance(outcome, Finished)
        return self._end(sequence, outcome)

    # ---- the report --------------------------------------------------------------------------------------------

    def _report(self) -> StepReport:
        """What is new, from the states; only what the finished report holds is then marked as told."""
        events: list[Event] = []
        told: list[tuple[str, Sequence, Told, bool]] = []
        for sequence in tuple(self._touched.values()):
            with self._concerning([]):  # told in a later step
                news = self._news(sequence)
                told.append((sequence.id, sequence, sequence.news_end(), sequence.is_over))
                events += news
        report = StepReport(self._step, tuple(events))
        for request_id, sequence, end, is_over in told:
            sequence.told = end
            del self._touched[request_id]
            if is_over:
                self._forget(request_id, sequence)
        return report

    def _news(self, sequence: Sequence) -> list[Event]:
        """New tokens, then the end; a failure instead of both if they cannot be told."""
        try:
            deltas = [Event(sequence.id, _delta(sequence))] if sequence.has_news else []
            ends = [Event(sequence.id, sequence.state.outcome)] if isinstance(sequence.state, Ended) else []
            return deltas + ends
        except BaseException as exc:
            reraise_users_interrupt(exc)
            RequestLogger(logger, sequence.id).exception("a request's output failed in step %d", self._step)
            failed = Failed(internal_error(exc))
            self._end(sequence, failed)
            return [Event(sequence.id, failed)]

    def _forget(self, request_id: str, sequence: Sequence) -> None:
        """Gives back all that an ended sequence held: its grammar; KV row or place in the queue; sampler slot; id."""
        with self._concerning([]):
            self._promoter.withdraw(request_id)
        with self._concerning([]):
            self.scheduler.drop(sequence)
        if sequence.slot is not None:
            with self._concerning([]):
                self._forward.sampling.leave(sequence.slot)
        self._sequences.pop(request_id, None)
        self._release_claim(request_id)


def run(engine: Engine, requests: Iterable[Request]) -> Iterator[Event]:
    """Runs requests to their ends and yields what happens; one that cannot be taken yields its `Failed` at once."""
    for request in requests:
        match engine.add(request):
            case Err(error):
                yield Event(request.id, Failed(error))
    while engine.unfinished:
        engine.wait_for_work()
        yield from engine.step().events


def _delta(sequence: Sequence) -> Delta:
    told = sequence.told
    return Delta(
        text="".join(sequence.text[told.pieces :]),
        token_ids=tuple(sequence.tokens[told.tokens :]),
        logprobs=tuple(sequence.logprobs[told.tokens :]),
    )
