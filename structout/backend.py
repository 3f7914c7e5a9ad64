"""What a grammar backend is to the core: the protocols an author implements, with no base class to inherit from.

A backend is three objects, each made by the one before::

    info = BackendInfo(id="mine", create=create_backend, spec_kinds={"regex"})    returned from a hook, no heavy import
    backend = info.create(vocabulary)                                             once per engine
    compiled = backend.compile(spec).unwrap()                                     once per spec; immutable, shared
    matcher = compiled.start(stop_token_ids=(2,), max_rollback=0)                 once per sequence
    matcher.fill(row); matcher.accept(token)                                      once per token

What a backend cannot do is left out: abilities beyond the four required methods are protocols of their own
(`SupportsRollback`, `SupportsFork`, ...). The core emulates rollback and fork by replay where they are missing.

The core calls a matcher from one thread at a time, not always the same one; ``compile`` and different matchers are
called from several at once.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt

from structout.errors import GrammarError
from structout.result import Result
from structout.spec import SPEC_KINDS, GrammarSpec
from structout.vocabulary import Vocabulary

API_VERSION: Final = 1
"""Version of the protocols in this module. A backend made for another major version is not loaded."""

BitmaskRow = npt.NDArray[np.int32]
"""One row of a bitmask: writable, contiguous int32 [ceil(padded vocabulary / 32)]; bit ``i`` of word ``w`` is token
``32 * w + i``, 1 where the token may follow. The caller owns it; it may lie in shared memory."""

Bitmask = npt.NDArray[np.int32]
"""Rows of a bitmask: C-contiguous int32 [rows, ceil(padded vocabulary / 32)]."""


class Status(enum.IntEnum):
    """What one call for one sequence came to. Fits a byte; the numbers are stable.

    OK: done. FREE: nothing is constrained yet, the row is all ones. TERMINATED: the sequence has ended with a stop
    token. REJECTED: the token (or the rollback) is not possible here; the state is what it was. DEAD_END: no token can
    follow. FAILED: the backend failed; the sequence cannot go on. LATE: the row was not ready within its budget;
    nothing has changed, and the sequence sits this step out.
    """

    OK = 0
    FREE = 1
    TERMINATED = 2
    REJECTED = 3
    DEAD_END = 4
    FAILED = 5
    LATE = 6


@runtime_checkable
class Matcher(Protocol):
    """The state of one sequence.

    A call that has to give up, because the text has led to a limit of the backend, raises
    `structout.errors.GrammarFailure`, which says what the caller is told.
    """

    def fill(self, row: BitmaskRow) -> Status:
        """Writes which tokens may follow, stop tokens where the text so far is complete, and padding bits as 0.

        Returns OK; after the end TERMINATED; LATE if it has a budget and missed it. Where it is not OK the row may hold
        anything. Does not change the state.
        """
        ...

    def accept(self, token: int) -> Status:
        """Moves on by one token. Returns OK, REJECTED (state unchanged), or after the end TERMINATED.

        The core asks about ids from 0 to ``padded_size - 1`` only. A stop token is accepted where the text so far is
        complete, and ends the sequence.
        """
        ...

    @property
    def is_accepting(self) -> bool:
        """Whether the text so far is a complete text of the language. Stays true after the stop token."""
        ...

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        ...


@runtime_checkable
class SupportsRollback(Protocol):
    """A matcher that can undo tokens."""

    def rollback(self, tokens: int) -> Status:
        """Undoes the last ``tokens`` accepted tokens, a stop token counting as one.

        The core asks for at most ``max_rollback`` and never for more than were accepted.
        """
        ...


@runtime_checkable
class SupportsFork(Protocol):
    """A matcher that can be copied."""

    def fork(self) -> Matcher:
        """An independent matcher in the same state."""
        ...


@runtime_checkable
class SupportsForcedText(Protocol):
    """A matcher that knows when there is only one way to go on."""

    def forced_text(self, limit: int) -> bytes:
        """The bytes that every text goes on with from here, ``limit`` at most; empty where there is a choice, or where
        the text may end.

        Engines call it on the thread that everybody waits for, after each token: it has to be quick, and come back soon
        whatever is forced, which may be without end. It may stop short. How the text is cut into tokens is not the
        matcher's business: an engine appends those that the model's tokenizer would make of it. Does not change the
        state. `structout.forced.LookAhead` does it for a matcher that can fork.
        """
        ...


_text = attrs.validators.instance_of(str)


FORMS: Final = ("whitespace", "key_order", "escapes", "characters", "numbers", "nesting")
"""What may be narrowed for a whole schema beside its keywords: how a value may be written. ``characters``: which of the
control characters a string may hold as they are; ``nesting``: how deep arrays and objects are where the schema leaves
them open."""


@attrs.frozen
class Finding:
    """One place where a compiled grammar is not exactly the spec.

    Attributes:
        pointer: RFC 6901 JSON pointer into the schema; "" is its root.
        keyword: the JSON Schema keyword there; in what is narrowed, at the root, one of `FORMS` too.
        reason: what the backend does instead, in a phrase.
    """

    pointer: str = attrs.field(validator=_text)
    keyword: str = attrs.field(validator=_text)
    reason: str = attrs.field(validator=_text)


@runtime_checkable
class CompiledGrammar(Protocol):
    """A grammar ready to match, for one vocabulary. Immutable and shared by all sequences that use it."""

    @property
    def unenforced(self) -> Sequence[Finding]:
        """What lets through more than the spec allows; empty unless the policy is ``BEST_EFFORT``."""
        ...

    @property
    def narrowed(self) -> Sequence[Finding]:
        """What lets through less than the spec allows; empty if the policy is ``EXACT``."""
        ...

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        """A matcher before its first token.

        Args:
            stop_token_ids: ids that end this sequence; they never count as text.
            max_rollback: how many tokens this sequence may have to undo at once; 0 for none.
        """
        ...


@runtime_checkable
class SupportsSize(Protocol):
    """A compiled grammar that knows how much memory it holds."""

    @property
    def size_bytes(self) -> int:
        """Approximate bytes held, for a cache's bound."""
        ...


@runtime_checkable
class SupportsSerialization(Protocol):
    """A compiled grammar that can cross processes as data."""

    def serialize(self) -> bytes:
        """The grammar without the vocabulary, in a format that cannot carry code (never a pickle)."""
        ...


@runtime_checkable
class Backend(Protocol):
    """One engine of one kind of grammar, bound to a vocabulary."""

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        """Compiles a spec of a kind that the backend's `BackendInfo` lists, or says why not.

        What cannot be enforced under ``spec.policy`` is refused with UNSUPPORTED, the keyword and its pointer.
        """
        ...


@runtime_checkable
class SupportsBatchFill(Protocol):
    """A backend that fills the rows of many of its matchers in one native call."""

    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        """Like ``matchers[i].fill(bitmask[rows[i]])`` for every ``i``; a `Status` for each.

        ``matchers`` are this backend's own, each at most once. If the call raises, the core fills row by row, so that
        one bad matcher costs one request.
        """
        ...


@runtime_checkable
class SupportsDeserialization(Protocol):
    """A backend that loads what its compiled grammars serialize."""

    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        """A grammar from the bytes of ``serialize``; what does not fit version or vocabulary is an error."""
        ...


def _no_objection(_spec: GrammarSpec) -> GrammarError | None:
    return None


def _frozen_kinds(kinds: Iterable[str]) -> frozenset[str]:
    return frozenset([kinds] if isinstance(kinds, str) else kinds)


def _requirements(requires: Iterable[str]) -> tuple[str, ...]:
    requirements = (requires,) if isinstance(requires, str) else tuple(requires)
    if not all(isinstance(requirement, str) for requirement in requirements):
        raise TypeError("requires holds requirement strings")
    return requirements


@attrs.frozen(kw_only=True)
class BackendInfo:
    """A backend's description: what can be known of it without importing it.

    Attributes:
        id: short lower-case name that requests use, such as ``xgrammar``.
        create: makes the backend for a vocabulary; heavy imports belong in here. May raise; the core contains it.
        spec_kinds: which of `structout.spec.SPEC_KINDS` it compiles.
        requires: distributions that must be installed, as requirement strings (``"xgrammar>=0.2.9"``; one alone is
            taken too). One that is missing makes the backend unavailable, not broken.
        refusal: a quick static check: the error with which ``compile`` would refuse this spec, or None if it might take
            it. Called for specs of the listed kinds only, on the caller's thread; must not import the backend.
        description: one line for people.
        install_hint: how to get what ``requires`` names.
        known_faults: a file of faults that the backend is known to have, each with a reason, as
            `structout.fuzz.known` reads it; None if there are none.
        capabilities: a file that says what becomes of each keyword of JSON Schema and of each pair, as
            ``pytest --structout-capabilities`` writes it; None if that was not measured.
        by_name_only: whether it is only used where a request names it: for backends that are not made for serving.
        api_version: `API_VERSION` that the backend was written for.
    """

    id: str = attrs.field(validator=attrs.validators.matches_re(r"[a-z][a-z0-9_]*"))
    create: Callable[[Vocabulary], Backend] = attrs.field(validator=attrs.validators.is_callable(), repr=False)
    spec_kinds: frozenset[str] = attrs.field(converter=_frozen_kinds)
    requires: tuple[str, ...] = attrs.field(default=(), converter=_requirements)
    refusal: Callable[[GrammarSpec], GrammarError | None] = attrs.field(
        default=_no_objection, validator=attrs.validators.is_callable(), repr=False
    )
    description: str = ""
    install_hint: str | None = None
    known_faults: Path | None = None
    capabilities: Path | None = None
    by_name_only: bool = False
    api_version: int = API_VERSION

    @spec_kinds.validator
    def _kinds_are_known(self, _attribute: object, kinds: frozenset[str]) -> None:
        if unknown := kinds - set(SPEC_KINDS):
            raise ValueError(f"unknown spec kinds {sorted(unknown)}; there are {list(SPEC_KINDS)}")
        if not kinds:
            raise ValueError("spec_kinds is empty: a backend takes at least one kind")
