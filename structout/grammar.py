"""A plugin's backend and its compiled grammars behind a guard: whatever a plugin does comes out as a `Result`."""

import logging
from collections.abc import Sequence

import attrs

from structout.backend import (
    Backend,
    BackendInfo,
    CompiledGrammar,
    Finding,
    Matcher,
    SupportsBatchFill,
    SupportsDeserialization,
    SupportsSerialization,
)
from structout.constraint import Activation, AfterTokens, AtOffset, Constraint
from structout.errors import ErrorKind, GrammarError, GrammarFailure, describe_exception, reraise_users_interrupt
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, Policy
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class BoundBackend:
    """A backend bound to a vocabulary. Its methods never raise.

    Attributes:
        info: what the plugin said of it.
        distribution: name and version of the package that brought it; None for one registered in process.
        vocabulary: what it compiles for.
        backend: the plugin's object.
        batch_filler: the same object if it fills rows in batches, else None.
    """

    info: BackendInfo
    distribution: str | None
    vocabulary: Vocabulary = attrs.field(repr=False)
    backend: Backend = attrs.field(repr=False)
    batch_filler: SupportsBatchFill | None = attrs.field(repr=False)

    @classmethod
    def create(
        cls, info: BackendInfo, distribution: str | None, vocabulary: Vocabulary
    ) -> "Result[BoundBackend, GrammarError]":
        """Calls the plugin's factory."""
        cause: BaseException | str
        try:
            backend: object = info.create(vocabulary)
            if isinstance(backend, Backend):
                batch_filler = backend if isinstance(backend, SupportsBatchFill) else None
                return Ok(cls(info, distribution, vocabulary, backend, batch_filler))
            cause = _wrong_type("create", backend)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            cause = exc
        return Err(_failure(info.id, distribution, "it could not be started", cause))

    @property
    def id(self) -> str:
        return self.info.id

    def compile(self, spec: GrammarSpec) -> "Result[Grammar, GrammarError]":
        """Compiles a spec, and checks that the plugin kept what ``spec.policy`` promises."""
        try:
            if error := static_refusal(self.info, spec):
                return Err(self._signed(error))
        except BaseException as exc:
            reraise_users_interrupt(exc)
            return Err(self.failure("it failed to compile this grammar", exc))
        return self.compile_admitted(spec)

    def compile_admitted(self, spec: GrammarSpec) -> "Result[Grammar, GrammarError]":
        """`compile` for a spec that `static_refusal` let through a moment ago: it is not asked again."""
        try:
            return self._checked(spec, self.backend.compile(spec))
        except BaseException as exc:
            reraise_users_interrupt(exc)
            return Err(self.failure("it failed to compile this grammar", exc))

    def load(self, spec: GrammarSpec, data: bytes) -> "Result[Grammar, GrammarError]":
        """A spec's grammar from what `Grammar.serialize` made of it, with the same checks as if it was compiled."""
        backend: object = self.backend
        try:
            if isinstance(backend, SupportsDeserialization):
                return self._checked(spec, backend.deserialize(data), "deserialize")
            return Err(self.failure("it cannot load grammars", "it has no deserialize()"))
        except BaseException as exc:
            reraise_users_interrupt(exc)
            return Err(self.failure("it failed to load this grammar", exc))

    def _checked(self, spec: GrammarSpec, result: object, call: str = "compile") -> "Result[Grammar, GrammarError]":
        what = f"it failed to {call} this grammar"
        match result:
            case Err(GrammarError() as error):
                return Err(self._signed(error))
            case Ok(CompiledGrammar() as compiled):
                findings = _findings(compiled.unenforced), _findings(compiled.narrowed)
                return self._kept(Grammar(spec, self, compiled, *findings))
            case Ok(value) | Err(value):
                return Err(self.failure(what, _wrong_type(call, value)))
        return Err(self.failure(what, _wrong_type(call, result)))

    def _kept(self, grammar: "Grammar") -> "Result[Grammar, GrammarError]":
        """``grammar``, or a refusal if it deviates from the spec in a way that its policy rules out."""
        policy = grammar.spec.policy
        deviations = grammar.unenforced if policy is not Policy.BEST_EFFORT else ()
        deviations += grammar.narrowed if policy is Policy.EXACT else ()
        if not deviations:
            return Ok(grammar)
        return Err(self._signed(refusal_of(deviations, policy)))

    def _signed(self, error: GrammarError) -> GrammarError:
        return attrs.evolve(error, backend=self.id, distribution=self.distribution)

    def failure(self, what: str, cause: BaseException | str) -> GrammarError:
        """The error for something that the plugin did and must not do; that of a `GrammarFailure`."""
        return _failure(self.id, self.distribution, what, cause)


@attrs.frozen(eq=False)
class Grammar:
    """A compiled grammar and where it comes from: what the compile service hands to engines. Shared by sequences.

    Attributes:
        spec: what was asked for.
        backend: who compiled it.
        compiled: the plugin's object.
        unenforced: what lets through more than the spec allows.
        narrowed: what lets through less.
        is_risky: whether its masks may take long: an engine fills its rows apart from those of others.
    """

    spec: GrammarSpec
    backend: BoundBackend
    compiled: CompiledGrammar = attrs.field(repr=False)
    unenforced: tuple[Finding, ...]
    narrowed: tuple[Finding, ...]
    is_risky: bool = False

    @property
    def vocabulary(self) -> Vocabulary:
        return self.backend.vocabulary

    @property
    def can_serialize(self) -> bool:
        """Whether its backend has a way to write it, and to read it again."""
        try:
            is_readable = isinstance(self.backend.backend, SupportsDeserialization)
            return is_readable and isinstance(self.compiled, SupportsSerialization)
        except BaseException as exc:  # a property of the plugin's raised
            reraise_users_interrupt(exc)
            return False

    def serialize(self) -> bytes | None:
        """What `BoundBackend.load` makes this grammar of again, for the same spec and vocabulary; None if the plugin
        has no such way, or it fails."""
        try:
            compiled: object = self.compiled
            data: object = compiled.serialize() if isinstance(compiled, SupportsSerialization) else None
        except BaseException as exc:
            reraise_users_interrupt(exc)
            logger.exception("a grammar of %s cannot be serialized", self.backend.id)
            return None
        return data if isinstance(data, bytes) else None

    def start(
        self,
        *,
        stop_token_ids: Sequence[int] | None = None,
        max_rollback: int = 0,
        activation: Activation | None = None,
    ) -> Result[Constraint, GrammarError]:
        """A constraint for one sequence, before its first token.

        Args:
            stop_token_ids: what ends this sequence; the vocabulary's eos ids when not given. They never count as text.
            max_rollback: how many tokens may have to be undone at once, drafts included.
            activation: where the grammar starts to constrain; at the first token when not given.
        """
        stops = self.vocabulary.eos_token_ids if stop_token_ids is None else tuple(stop_token_ids)
        if outside := [token for token in stops if not 0 <= token < self.vocabulary.padded_size]:
            return Err(_bad_stop_ids(outside, self.vocabulary.padded_size))
        if not isinstance(activation, AtOffset | AfterTokens | None):
            return Err(_bad_activation(activation))
        cause: BaseException | str
        try:
            matcher: object = self.compiled.start(stop_token_ids=stops, max_rollback=max_rollback)
            # The check evaluates the matcher's properties, which may raise like any other code of a plugin.
            if isinstance(matcher, Matcher):
                return Ok(self._constraint(matcher, stops, max_rollback, activation or AtOffset(0)))
            cause = _wrong_type("start", matcher)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            cause = exc
        return Err(self.backend.failure("it could not start this grammar", cause))

    def _constraint(
        self, matcher: Matcher, stops: Sequence[int], max_rollback: int, activation: Activation
    ) -> Constraint:
        return Constraint(
            self, matcher, stop_token_ids=frozenset(stops), max_rollback=max_rollback, activation=activation
        )


def _findings(value: object) -> tuple[Finding, ...]:
    """A plugin's findings, frozen. Raises TypeError for what is none: a generator would be empty the second time."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, Finding) for each in value):
        raise TypeError(f"unenforced and narrowed are lists of Finding, not {type(value).__name__}")
    return tuple(value)


def static_refusal(info: BackendInfo, spec: GrammarSpec) -> GrammarError | None:
    """Why a backend refuses a spec, as far as that can be known without compiling; None if it may take it.

    Raises what the plugin's check raises.
    """
    if spec.kind not in info.spec_kinds:
        message = f"{info.id} has no {spec.kind} grammars, only {', '.join(sorted(info.spec_kinds))}"
        return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, backend=info.id)
    error: object = info.refusal(spec)
    if error is None or isinstance(error, GrammarError):
        return error
    raise TypeError(_wrong_type("refusal", error))


def refusal_of(deviations: Sequence[Finding], policy: Policy) -> GrammarError:
    """The refusal for deviations that a policy rules out: it names the first, and how many more there are."""
    first, more = deviations[0], len(deviations) - 1
    others = f" ({more} more)" if more else ""
    hint = "name another backend or none, change the schema"
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED,
        message=f"{first.keyword!r} {first.reason}{others}",
        pointer=first.pointer,
        keyword=first.keyword,
        hint=f"{hint}, or ask for best_effort" if policy is Policy.SOUND else f"{hint}, or ask for sound",
    )


def _bad_stop_ids(outside: Sequence[int], padded_size: int) -> GrammarError:
    message = f"stop token ids {outside} are not ids of this model's {padded_size} tokens"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword="stop_token_ids")


def _bad_activation(activation: object) -> GrammarError:
    message = f"activation is an AtOffset or AfterTokens, not {type(activation).__name__}"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword="activation")


def _wrong_type(call: str, value: object) -> str:
    return f"{call}() returned {type(value).__name__}"


def _failure(backend: str, distribution: str | None, what: str, cause: BaseException | str) -> GrammarError:
    if isinstance(cause, GrammarFailure) and isinstance(said := vars(cause).get("error"), GrammarError):
        return attrs.evolve(said, backend=backend, distribution=distribution)
    detail = cause if isinstance(cause, str) else describe_exception(cause)
    return GrammarError(
        kind=ErrorKind.BACKEND_FAILURE,
        message=f"the {backend} backend failed: {what}",
        backend=backend,
        distribution=distribution,
        detail=detail,
    )
