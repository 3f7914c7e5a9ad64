"""The faulty backends are well formed: what is wrong with each is its one fault, and nothing around it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from structout import Choice, Err, GrammarError, GrammarSpec, JsonSchema, Ok, Regex, Result, Status
from structout.backend import Backend, CompiledGrammar, Matcher, SupportsBatchFill, SupportsFork, SupportsRollback
from structout.fuzz.vocabulary import small_vocabulary
from tests import mutants
from tests.mutants import MUTANTS
from tests.mutants.wrapping import FullMatcher, PassBackend, base_info, byte_token, ids_of, put

ROOT = Path(__file__).resolve().parents[2]
SPECS: Sequence[GrammarSpec] = (
    JsonSchema('{"type": "array", "items": {"type": "integer"}}'),
    Regex("[a-c]+x"),
    Choice(("yes", "no")),
)
TEXTS = ("[1,2]", "abx", "no")
WRONG_RESULTS = {"returns_the_grammar"}
"""Those whose fault is what they return for a spec that they do compile."""
COSTLY = {"huge_grammars", "huge_sequences"}
"""Those that cannot be tried without their harm being done."""
SILENT = {"refuses_everything"}
"""Those that have no grammars."""


@cache
def good(base: str) -> Backend:
    return base_info(base).create(small_vocabulary())


@cache
def layer(base: str) -> PassBackend:
    """The layer without a fault."""
    return PassBackend(good(base), small_vocabulary())


def started(result: Result[CompiledGrammar, GrammarError]) -> FullMatcher:
    matcher = result.unwrap().start(stop_token_ids=small_vocabulary().eos_token_ids, max_rollback=16)
    assert isinstance(matcher, Matcher)
    assert isinstance(matcher, SupportsRollback)
    assert isinstance(matcher, SupportsFork)
    return matcher


def behaviour(matcher: FullMatcher, text: str) -> Iterator[object]:
    """All that is seen of a matcher along a text, its end, the way back and another way on."""
    [eos] = small_vocabulary().eos_token_ids
    row = np.full(small_vocabulary().bitmask_width, 77, np.int32)
    tokens = [byte_token(small_vocabulary(), byte) for byte in text.encode()]
    for token in (*tokens, eos, 0):
        yield matcher.fill(row), ids_of(row), matcher.is_accepting, matcher.is_terminated
        yield matcher.accept(ord("?"))
        yield matcher.accept(token)
    yield matcher.rollback(3), matcher.is_terminated, matcher.fill(row), ids_of(row)
    fork = matcher.fork()
    yield fork.accept(tokens[-2]), fork.fill(row), ids_of(row)
    yield matcher.rollback(0), matcher.fill(row), ids_of(row)


@pytest.mark.parametrize("base", sorted({mutant.base for mutant in MUTANTS.values()}))
def test_the_layer_itself_changes_nothing(base: str) -> None:
    for spec, text in zip(SPECS, TEXTS, strict=True):
        if spec.kind in base_info(base).spec_kinds:
            bare, wrapped = (started(backend.compile(spec)) for backend in (good(base), layer(base)))
            assert list(behaviour(wrapped, text)) == list(behaviour(bare, text))


@pytest.mark.parametrize("base", sorted({mutant.base for mutant in MUTANTS.values()}))
def test_the_layer_fills_batches(base: str) -> None:
    backend = layer(base)
    assert isinstance(backend, SupportsBatchFill)
    one, other = started(backend.compile(SPECS[1])), started(backend.compile(SPECS[2]))
    bitmask = np.zeros((3, small_vocabulary().bitmask_width), np.int32)
    assert backend.fill_batch([one, other], bitmask, [2, 0]) == [Status.OK, Status.OK]
    alone = np.zeros_like(bitmask[0])
    one.fill(alone)
    assert (bitmask[2] == alone).all()
    assert not bitmask[1].any()


def test_there_are_enough_of_every_kind_and_each_says_what_is_wrong() -> None:
    assert len(MUTANTS) >= 36
    assert len({mutant.description for mutant in MUTANTS.values()}) == len(MUTANTS)
    for mutant in MUTANTS.values():
        assert mutant.description.endswith("."), mutant.name
        assert mutant.info.id == mutant.name
        assert mutant.info.description == mutant.description
        assert mutant.info.spec_kinds == base_info(mutant.base).spec_kinds


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - COSTLY - SILENT))
def test_it_compiles_what_its_base_compiles_and_starts(name: str) -> None:
    mutant = MUTANTS[name]
    backend = mutant.info.create(small_vocabulary())
    assert isinstance(backend, Backend)
    for spec in SPECS:
        if spec.kind not in mutant.info.spec_kinds:
            continue
        match backend.compile(spec):
            case Ok() as compiled:
                started(compiled)
            case Err(error):
                pytest.fail(f"{name} refuses {spec}: {error}")
            case _:
                assert name in WRONG_RESULTS


@pytest.mark.parametrize("token", [0, 31, 32, 63])
def test_a_single_bit_is_set_and_cleared(token: int) -> None:
    row = np.zeros(2, np.int32)
    put(row, token, allowed=True)
    assert ids_of(row) == [token]
    put(row, token, allowed=False)
    assert ids_of(row) == []


def test_a_fresh_process_finds_it_by_name() -> None:
    code = (
        "import tests.mutants; from structout.discovery import discover; "
        "discover(plugins={'mutant': tests.mutants.races}, entry_points=()).find('races').unwrap()"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, cwd="/", check=True)
    assert mutants.races is MUTANTS["races"]
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        getattr(mutants, "none")  # noqa: B009
