"""The cache: bounded in entries and bytes, whatever plugins say, and with nothing in it that may change."""

from collections.abc import Sequence

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import Choice, Err, ErrorKind, Fault, GrammarError, JsonSchema, Ok, Regex, Result, Vocabulary
from structout.backend import CompiledGrammar
from structout.compile import CompileService
from structout.compile.cache import ERRORS_SHARE, ResultCache
from structout.compile.sizes import BASE_BYTES, BYTES_PER_BYTE, MOST_BYTES, size_of, spec_bytes
from structout.discovery import discover
from structout.errors import CONSEQUENCES
from structout.grammar import BoundBackend
from structout.spec import GrammarSpec
from tests.fakes import BYTES, TrieBackend, TriePlugin, trie_info

MOST = 1600
FOR_VALUES = MOST - MOST // ERRORS_SHARE


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 2 * MOST))), st.integers(0, 5))
def test_it_never_holds_more_than_its_bounds_and_the_last_stays_if_it_fits(
    puts: Sequence[tuple[int, int]], entries: int
) -> None:
    cache = ResultCache[int, int](entries, MOST)
    for key, size in puts:
        before = cache.get(key)
        cache.put(key, Ok(size), size)
        assert cache.size_bytes <= FOR_VALUES
        assert len(cache) <= entries
        fits = entries > 0 and size <= FOR_VALUES
        assert cache.get(key) == (Ok(size) if fits else before)


@pytest.mark.parametrize(
    ("kind", "fault"), [(kind, fault) for kind, faults in CONSEQUENCES.items() for fault in faults]
)
def test_only_verdicts_are_kept(kind: ErrorKind, fault: Fault) -> None:
    cache = ResultCache[int, int](4, 1 << 20)
    error = Err(GrammarError(kind=kind, fault=fault, message="no"))
    cache.put(1, error, 1)
    verdicts = {ErrorKind.INVALID_SPEC, ErrorKind.UNSATISFIABLE, ErrorKind.UNSUPPORTED, ErrorKind.TOO_COMPLEX}
    assert cache.get(1) == (error if kind in verdicts else None)


def test_the_texts_of_errors_count() -> None:
    cache = ResultCache[int, int](100, 1 << 20)
    for key in range(10):
        cache.put(key, Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message="x" * 20_000)), 1)
    assert 0 < len(cache) <= 3
    cache.put(10, Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message="x" * 2_000_000)), 1)
    assert cache.get(10) is None


@attrs.frozen(eq=False)
class Sized:
    """A grammar that says what it is told to say of its size."""

    inner: CompiledGrammar
    said: object

    @property
    def size_bytes(self) -> object:
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said

    unenforced = ()
    narrowed = ()

    def start(self, **options: object) -> object:
        raise AssertionError(options)


def saying(said: object) -> type[TrieBackend]:
    class Says(TrieBackend):
        def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
            return super().compile(spec).map(lambda inner: Sized(inner, said))  # type: ignore[arg-type, return-value]

    return Says


def size(backend: type[TrieBackend], spec: GrammarSpec) -> int:
    bound = BoundBackend.create(attrs.evolve(trie_info("trie"), create=backend), None, BYTES).unwrap()
    return size_of(bound.compile(spec).unwrap())


def test_a_grammar_counts_as_what_it_says_it_holds() -> None:
    spec = Choice(("abc", "d"))
    assert size(saying(12_345), spec) == BASE_BYTES + spec_bytes(spec) + 12_345
    assert size(TrieBackend, spec) == BASE_BYTES + spec_bytes(spec) * (1 + BYTES_PER_BYTE)


@pytest.mark.parametrize("said", ["7", None, -1, 1.5, True, MOST_BYTES + 1, RuntimeError(), SystemExit(1)], ids=repr)
def test_nonsense_about_the_size_is_taken_for_silence(said: object) -> None:
    assert size(saying(said), Choice(("a",))) == size(TrieBackend, Choice(("a",)))


def test_all_texts_of_a_spec_count() -> None:
    assert spec_bytes(JsonSchema("{}", registry={"urn:a": "true"})) == len("{}urn:atrue")
    assert spec_bytes(Regex("é")) == 2


def test_the_service_forgets_what_takes_too_much() -> None:
    compiled: list[GrammarSpec] = []

    class Counts(saying(1 << 20)):  # type: ignore[misc]
        def __init__(self, vocabulary: Vocabulary) -> None:
            super().__init__(vocabulary)

        def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
            compiled.append(spec)
            result: Result[CompiledGrammar, GrammarError] = super().compile(spec)
            return result

    plugin = TriePlugin(attrs.evolve(trie_info("trie"), create=Counts))
    service = CompileService(
        discover(plugins={"test": plugin}, entry_points=[], disable=[]), BYTES, cache_bytes=3 << 20
    )
    for option in "abba":
        service.compile(Choice((option,))).unwrap()
    assert len(compiled) == 2
    for option in "cda":
        service.compile(Choice((option,))).unwrap()
    stats = service.stats()
    assert len(compiled) == 5
    assert (1 << 20) < stats.cache_bytes <= 3 << 20
    assert (stats.cache_hits, stats.cache_misses) == (2, 5)
    service.close()
