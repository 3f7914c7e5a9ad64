"""The guard around a plugin's backend."""

from collections.abc import Sequence

import attrs
import pytest

from structout import BackendInfo, Choice, Err, ErrorKind, Finding, GrammarError, Ok, Policy, Regex, Result
from structout.backend import CompiledGrammar
from structout.grammar import BoundBackend
from structout.spec import GrammarSpec
from tests.fakes import BYTES, TrieBackend, TrieGrammar, trie_info

LOOSE = Finding("/not", "not", "is ignored")
NARROW = Finding("", "additionalProperties", "is closed")


def bound(**changes: object) -> BoundBackend:
    info = attrs.evolve(trie_info(), **changes)  # type: ignore[arg-type]
    return BoundBackend.create(info, "trie 1.0", BYTES).unwrap()


def kind_of(result: Result[object, GrammarError]) -> ErrorKind | None:
    return result.error.kind if isinstance(result, Err) else None


def test_a_kind_that_is_not_listed_is_refused_without_asking_the_backend() -> None:
    result = bound().compile(Regex("a"))
    assert isinstance(result, Err)
    assert (result.error.kind, result.error.backend) == (ErrorKind.UNSUPPORTED, "trie")


def test_errors_of_a_plugin_are_signed() -> None:
    result = bound().compile(Choice(("refuse",)))
    assert isinstance(result, Err)
    assert (result.error.backend, result.error.distribution) == ("trie", "trie 1.0")


def test_what_a_plugin_raises_becomes_a_failure_whose_text_stays_inside() -> None:
    result = bound().compile(Choice(("raise",)))
    assert isinstance(result, Err)
    assert result.error.kind is ErrorKind.BACKEND_FAILURE
    assert result.error.detail == "RuntimeError: secret internals"
    assert "secret" not in str(result.error.to_json())


@attrs.frozen(eq=False)
class Returns:
    """A backend whose compile returns what it is told to."""

    answer: object

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize("answer", [None, "grammar", Ok(None), Ok("grammar"), Err("no"), Err(ValueError("no"))])
def test_what_is_no_result_becomes_a_failure(answer: object) -> None:
    assert kind_of(bound(create=lambda _: Returns(answer)).compile(Choice(("a",)))) is ErrorKind.BACKEND_FAILURE


@pytest.mark.parametrize(
    ("policy", "unenforced", "narrowed", "refused"),
    [
        (Policy.EXACT, (), (), None),
        (Policy.EXACT, (), (NARROW,), NARROW),
        (Policy.EXACT, (LOOSE,), (), LOOSE),
        (Policy.SOUND, (), (NARROW,), None),
        (Policy.SOUND, (LOOSE,), (), LOOSE),
        (Policy.BEST_EFFORT, (LOOSE,), (NARROW,), None),
    ],
)
def test_exact_or_refused(
    policy: Policy, unenforced: Sequence[Finding], narrowed: Sequence[Finding], refused: Finding | None
) -> None:
    compiled = TrieGrammar(frozenset({b"a"}), BYTES, unenforced=unenforced, narrowed=narrowed)
    result = bound(create=lambda _: Returns(Ok(compiled))).compile(Choice(("a",), policy=policy))
    match result:
        case Ok(grammar):
            assert refused is None
            assert (grammar.unenforced, grammar.narrowed) == (tuple(unenforced), tuple(narrowed))
        case Err(error):
            assert refused is not None
            assert error.kind is ErrorKind.UNSUPPORTED
            assert (error.pointer, error.keyword) == (refused.pointer, refused.keyword)
            assert error.hint is not None


def raising(_: object) -> TrieBackend:
    raise MemoryError


@pytest.mark.parametrize("create", [raising, lambda _: None, lambda _: object()])
def test_a_factory_that_fails_is_an_error(create: object) -> None:
    info = attrs.evolve(trie_info(), create=create)  # type: ignore[arg-type]
    assert kind_of(BoundBackend.create(info, None, BYTES)) is ErrorKind.BACKEND_FAILURE


@pytest.mark.parametrize("refusal", [raising, lambda _: "no"])
def test_a_static_check_that_fails_is_an_error(refusal: object) -> None:
    assert kind_of(bound(refusal=refusal).compile(Choice(("a",)))) is ErrorKind.BACKEND_FAILURE


def test_a_static_check_can_refuse() -> None:
    error = GrammarError(kind=ErrorKind.TOO_COMPLEX, message="too many")
    result = bound(refusal=lambda _: error).compile(Choice(("a",)))
    assert kind_of(result) is ErrorKind.TOO_COMPLEX


@attrs.frozen(eq=False)
class StartRaises(TrieGrammar):
    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> "object":  # type: ignore[override]
        raise BrokenPipeError


def test_a_grammar_that_cannot_start_is_an_error() -> None:
    compiled = StartRaises(frozenset({b"a"}), BYTES)
    grammar = bound(create=lambda _: Returns(Ok(compiled))).compile(Choice(("a",))).unwrap()
    assert kind_of(grammar.start()) is ErrorKind.BACKEND_FAILURE


def test_a_description_needs_a_factory() -> None:
    with pytest.raises(TypeError):
        BackendInfo(id="x")  # type: ignore[call-arg]
