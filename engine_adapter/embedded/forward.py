"""What a plan comes to: the model's forward passes, bitmasks filled beside them, one token for each sequence.

Three things have rows here, and none of their numbers is another's: the KV rows are the scheduler's, the rows of the
bitmask are the plan's constrained sequences, and the logits' rows those that get a token.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

import attrs
import torch

from engine_adapter.embedded.model import ModelRunner, SupportsPooling
from engine_adapter.embedded.pooling import Pool
from engine_adapter.embedded.request import Decoding, Prefilling, Sequence
from engine_adapter.embedded.scheduler import Chunk, Plan
from engine_adapter.embedded.withholding import withhold_stops
from engine_adapter.filling import Filled, Filler, wait
from engine_adapter.masks import fill_rows
from engine_adapter.outcome import TokenLogprob, internal_error
from engine_adapter.sampling import SamplingBatch
from engine_adapter.sampling.mask_table import ENTRIES, MaskTable, StepMasks
from engine_adapter.sampling.sampled import RowFlag, Sampled
from engine_adapter.sampling.sampler import batch_sampler, sample
from structout.backend import Bitmask, Status
from structout.errors import ErrorKind, GrammarError, reraise_users_interrupt
from structout.observability.logs import RequestLogger

logger = logging.getLogger(__name__)

_OK: Final = RowFlag.OK
"""Beside a forward pass, looking a member up in its enum costs more than what is done with it."""


@attrs.frozen(eq=False)
class Late:
    """A sequence whose bitmask row was not there in time; its last token will be computed again.

    Attributes:
        has_missed: whether that is the doing of its own grammar, and not of one that shares a batch with it.
    """

    sequence: Sequence
    has_missed: bool


@attrs.define(eq=False)
class NewToken:
    """A token that was sampled for a sequence, and is not accepted yet."""

    sequence: Sequence
    token: int
    logprob: TokenLogprob | None


@attrs.define(eq=False)
class Computed:
    """What one plan came to; no sequence is in two of the lists.

    Attributes:
        tokens: what was sampled.
        failed: the sequences that cannot go on, and why.
        late: the sequences that sit this step out.
        pooled: the sequences whose prompts are pooled to their ends.
        pooled_s: how long the model took for embeddings, in seconds.
    """

    tokens: list[NewToken] = attrs.field(factory=list)
    failed: list[tuple[Sequence, GrammarError]] = attrs.field(factory=list)
    late: list[Late] = attrs.field(factory=list)
    pooled: list[Sequence] = attrs.field(factory=list)
    pooled_s: float = 0.0

    def fail(self, sequence: Sequence, exc: BaseException, problem: str) -> None:
        """What was raised is the failure of this sequence, and of no other. The user's own Ctrl-C goes on. ``problem``
        is for the log."""
        reraise_users_interrupt(exc)
        RequestLogger(logger, sequence.id).error(problem, exc_info=exc)
        self.failed.append((sequence, internal_error(exc)))


_Logits = list[tuple[tuple[Sequence, ...], torch.Tensor]]
"""Sequences that get a token, and their logits, float32 [sequences, logit_width], as each forward pass leaves them."""


class Forward:
    """Computes plans. Belongs to the engine's thread; masks are filled on other threads, beside the model.

    Args:
        runner: the model.
        bitmask_width: int32 words in a bitmask row.
        mask_budget_s: how long a step waits for bitmask rows once the model is done, in seconds.
        mask_entries: how many recent masks are kept where the sampler is. When not given, as many as a `MaskTable` has
            by itself; none on the CPU, where rows are read in place.
        clock: tells seconds.

    Attributes:
        sampling: the sampler's state of the requests; they join and leave here.
        filler: fills the bitmasks.
    """

    def __init__(
        self,
        runner: ModelRunner,
        bitmask_width: int,
        *,
        mask_budget_s: float = 0.05,
        mask_entries: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.sampling = SamplingBatch()
        self._sample_batch = batch_sampler(runner.device.type)
        self._runner = runner
        self._clock = clock
        self.filler = Filler(runner.max_rows, bitmask_width, budget_s=mask_budget_s)
        if mask_entries is None:
            mask_entries = 0 if runner.device.type == "cpu" else ENTRIES
        self._table = (
            MaskTable(runner.max_rows, bitmask_width, runner.device, entries=mask_entries) if mask_entries else None
        )

    def close(self) -> None:
        self.filler.close()

    def compute(self, plan: Plan) -> Computed:
        """Runs a plan. What goes wrong with one sequence is its own failure; the model's failure is the batch's.

        If this raises, KV rows may hold a token that no sequence has: none of the plan's sequences can go on.
        """
        places = None if self._table is None else self._table.begin()
        try:
            return self._compute(plan, places)
        finally:
            if places is not None:
                places.end()

    def _compute(self, plan: Plan, places: StepMasks | None) -> Computed:
        computed = Computed()
        constrained = [each for each in plan.sampled() if each.constraint is not None]
        constraints = [each.constraint for each in constrained if each.constraint is not None]
        filling = self.filler.begin(constraints, fill_rows, places)
        try:
            try:
                logits = self._launch(plan, computed)
            finally:
                others_go_on = len(constraints) < len(plan.decode) + len(plan.chunks)
                filled = wait(filling, others_go_on)
            bitmask_rows = _bitmask_rows(constrained, filled, computed)
            self._sample(logits, filling.bitmask, places, bitmask_rows, computed)
        finally:
            filling.end()
        return computed

    def _launch(self, plan: Plan, computed: Computed) -> _Logits:
        logits: _Logits = []
        if plan.decode:
            try:
                # Before the model: behind it this code would have to come from memory once more.
                complete = [index for index, chunk in enumerate(plan.decode) if chunk.completes]
                decoded = self._runner.decode([chunk.tokens() for chunk in plan.decode])
                if complete:
                    rows = decoded if len(complete) == len(plan.decode) else decoded[complete]
                    logits.append((tuple(plan.decode[index].sequence for index in complete), rows))
            except BaseException as exc:
                reraise_users_interrupt(exc)
                logger.exception("the model failed on %d sequences", len(plan.decode))
                computed.failed += [(chunk.sequence, internal_error(exc)) for chunk in plan.decode]
        for chunk in plan.chunks:
            try:
                if chunk.sequence.pool is not None:
                    self._pool(chunk, chunk.sequence.pool, computed)
                    continue
                last = self._runner.prefill(chunk.row, chunk.tokens(), chunk.start)
                logits += [((chunk.sequence,), last[None])] if chunk.completes else []
                chunk.sequence.move(Decoding() if chunk.completes else Prefilling(chunk.end))
            except BaseException as exc:
                computed.fail(chunk.sequence, exc, "the model failed on a prompt")
        return logits

    def _pool(self, chunk: Chunk, pool: Pool, computed: Computed) -> None:
        assert isinstance(self._runner, SupportsPooling), "or the engine would not have taken it"
        began = self._clock()
        pool.add(chunk.start, self._runner.prefill_pooled(chunk.row, chunk.tokens(), chunk.start))
        computed.pooled_s += self._clock() - began
        chunk.sequence.move(Prefilling(chunk.end))
        computed.pooled += [chunk.sequence] if chunk.completes else []

    def _sample(
        self,
        logits: _Logits,
        bitmask: Bitmask,
        places: StepMasks | None,
        bitmask_rows: dict[str, int],
        computed: Computed,
    ) -> None:
        if computed.failed or computed.late:
            logits = _without(_lost(computed), logits)
        if not logits:
            return
        sequences = [sequence for of_pass, _ in logits for sequence in of_pass]
        slots = [each.slot for each in sequences if each.slot is not None]
        outputs = [each.tokens for each in sequences]
        params = self.sampling.rows(slots, [len(tokens) for tokens in outputs], outputs)
        rows = [bitmask_rows.get(each.id, -1) for each in sequences]
        together = logits[0][1] if len(logits) == 1 else torch.cat([its_logits for _, its_logits in logits])
        withholding = [index for index, each in enumerate(sequences) if each.withheld]
        if withholding:
            with torch.inference_mode():  # in which the model made what is changed here
                for index in withholding:
                    withhold_stops(sequences[index], together[index], None if rows[index] < 0 else bitmask[rows[index]])
        if places is None:
            sampled = self._sample_batch(together, params, bitmask, rows)
        else:
            sampled = sample(together, params, *places.send(rows))
        for index, (sequence, (token, _, flag)) in enumerate(zip(sequences, sampled.on_host(), strict=True)):
            try:
                if flag == _OK:
                    wanted = sequence.request.sampling.logprobs
                    logprob = None if wanted is None else _logprob(sampled, index, wanted)
                    computed.tokens.append(NewToken(sequence, token, logprob))
                else:
                    computed.failed.append((sequence, _flag_error(sequence, RowFlag(flag))))
            except BaseException as exc:
                computed.fail(sequence, exc, "what was sampled cannot be read")


def _lost(computed: Computed) -> set[str]:
    return {sequence.id for sequence, _ in computed.failed} | {late.sequence.id for late in computed.late}


def _without(lost: set[str], logits: _Logits) -> _Logits:
    """The logits of the sequences that go on."""
    going_on: _Logits = []
    for sequences, its_logits in logits:
        kept = [index for index, sequence in enumerate(sequences) if sequence.id not in lost]
        if kept:
            going_on.append((tuple(sequences[index] for index in kept), its_logits[kept]))
    return going_on


def _bitmask_rows(constrained: list[Sequence], filled: Filled, computed: Computed) -> dict[str, int]:
    """The bitmask row of each sequence that has one; the others are late or have failed, as their status says."""
    if filled.is_plain:
        return {sequence.id: row for row, sequence in enumerate(constrained)}
    rows: dict[str, int] = {}
    for row, (sequence, status) in enumerate(zip(constrained, filled.statuses, strict=True)):
        try:
            sequence.constraint = filled.replaced.get(row, sequence.constraint)
            if status is Status.OK:
                rows[sequence.id] = row
            elif status is Status.LATE:
                computed.late.append(Late(sequence, row in filled.missed))
            elif (bug := filled.bugs.get(row)) is not None:
                # Told, not raised: a KeyboardInterrupt from the other thread would look like the user's in this one.
                RequestLogger(logger, sequence.id).error("filling a bitmask failed", exc_info=bug)
                computed.failed.append((sequence, internal_error(bug)))
            elif status is not Status.FREE and sequence.constraint is not None:
                computed.failed.append((sequence, sequence.constraint.error_for(status)))
        except BaseException as exc:
            computed.fail(sequence, exc, "its bitmask cannot be used")
    return rows


def _logprob(sampled: Sampled, row: int, wanted: int) -> TokenLogprob:
    """The log-probabilities of a row, and of as many alternatives as are wanted."""
    tokens, logprobs = sampled.top_tokens[row, :wanted].tolist(), sampled.top_logprobs[row, :wanted].tolist()
    top = tuple((token, logprob) for token, logprob in zip(tokens, logprobs, strict=True) if token >= 0)
    return TokenLogprob(token_id=int(sampled.tokens[row]), logprob=float(sampled.logprobs[row]), top=top)


def _flag_error(sequence: Sequence, flag: RowFlag) -> GrammarError:
    if flag is RowFlag.EMPTY_MASK and sequence.constraint is not None:
        return sequence.constraint.error_for(Status.DEAD_END)
    message = f"the model's logits are unusable after {len(sequence.tokens)} generated tokens: {flag.name.lower()}"
    return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=message)
