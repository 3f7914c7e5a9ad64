"""What a worker has compiled is read instead of compiled again: from the worker, and at the next start from disk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest

from structout import BackendInfo, Choice, GrammarSpec, Ok, Regex, hookimpl
from structout.compile import CompileService, GrammarStore
from structout.compile.sandbox import Sandbox
from structout.discovery import discover
from structout.fuzz.vocabulary import small_vocabulary
from structout.processes import Stop
from tests.compile.sandboxes import TRIED, Through
from tests.compile.saving import SavingBackend, saving_info
from tests.fakes import BYTES, TriePlugin

SPEC = Choice(("risky for what was never measured",))
DATA = b'["risky for what was never measured"]'
MakeService = Callable[..., CompileService]


class Forbids:
    @hookimpl
    def structout_forbid_backends(
        self, spec: GrammarSpec, candidates: Sequence[BackendInfo]
    ) -> Mapping[str, str] | None:
        return {"saving": "it is under maintenance"}


@pytest.fixture
def backends() -> list[SavingBackend]:
    return []


@pytest.fixture
def make(tmp_path: Path, backends: list[SavingBackend]) -> Iterator[MakeService]:
    made: list[CompileService] = []

    def make(
        data: bytes | None = DATA, *, distribution: str | None = "saving 1.0", **plugins: object
    ) -> CompileService:
        found = discover(plugins={"test": TriePlugin(saving_info(backends))} | plugins, entry_points=[], disable=[])
        installed = {name: attrs.evolve(each, distribution=distribution) for name, each in found.backends.items()}
        sandbox = Through(tried=attrs.evolve(TRIED, backend="saving", data=data))
        registry, store = attrs.evolve(found, backends=installed), GrammarStore(tmp_path / "grammars")
        made.append(CompileService(registry, BYTES, sandbox=sandbox, store=store, deadline_s=30.0))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for service in made:
        service.close()


def closed(service: CompileService) -> None:
    """Waits until a service has stored what it has to: what is submitted behind it is settled later."""
    service.compile(Choice(("another that is never measured",)))
    service.close()


def test_what_a_worker_has_compiled_is_read(make: MakeService, backends: list[SavingBackend]) -> None:
    assert make().compile(SPEC).unwrap().spec is SPEC
    [backend] = backends
    assert (backend.compiled, backend.read) == (0, 1)


@pytest.mark.parametrize("data", [None, b"rubbish"], ids=["nothing", "rubbish"])
def test_what_cannot_be_read_is_compiled(make: MakeService, backends: list[SavingBackend], data: bytes | None) -> None:
    assert isinstance(make(data).compile(SPEC), Ok)
    [backend] = backends
    assert (backend.compiled, backend.read) == (1, 0)


def test_the_next_start_reads_it_from_disk_and_tries_nothing(make: MakeService, backends: list[SavingBackend]) -> None:
    first = make()
    grammar = first.compile(SPEC).unwrap()
    closed(first)
    again = make(None)
    found = again.compile(SPEC).unwrap()
    assert again.stats().store_hits == 1
    assert (found.spec, found.is_risky, found.backend.id) == (SPEC, grammar.is_risky, "saving")
    assert (backends[1].compiled, backends[1].read) == (0, 1)
    closed(again)
    once_more = make(None)
    assert once_more.compile(SPEC, backend="saving").unwrap().spec == SPEC, "and it is stored still, for who names it"
    assert once_more.stats().store_hits == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [("saving 1.0", "saving 1.1"), (None, None)],
    ids=["of another version", "of an unknown version"],
)
def test_what_another_version_may_have_compiled_is_not_read(
    make: MakeService, backends: list[SavingBackend], first: str | None, then: str | None
) -> None:
    for data, distribution in ((DATA, first), (None, then)):
        service = make(data, distribution=distribution)
        assert isinstance(service.compile(SPEC), Ok)
        closed(service)
    assert [backend.read > 0 for backend in backends] == [True, False]


def test_a_backend_that_is_forbidden_by_now_is_not_used(make: MakeService, backends: list[SavingBackend]) -> None:
    first = make()
    first.compile(SPEC)
    closed(first)
    assert "maintenance" in make(None, forbids=Forbids()).compile(SPEC).error.message  # type: ignore[union-attr]
    assert sum(backend.read for backend in backends[1:]) == 0


def test_outlines_has_its_index_from_the_worker() -> None:
    pytest.importorskip("outlines_core")
    disabled = ["xgrammar", "llguidance", "reference"]
    registry, vocabulary = discover(disable=disabled), small_vocabulary()
    spec = Regex("(([a-z]{1,20},){1,20};){0,2}")
    sandbox = Sandbox(registry, vocabulary, workers=1, disable=disabled)
    service = CompileService(registry, vocabulary)
    try:
        tried = sandbox.run(spec, stop=Stop()).unwrap()
        bound = service.backend("outlines").unwrap()
        assert tried.data is not None
        read, compiled = bound.load(spec, tried.data).unwrap(), bound.compile(spec).unwrap()
        rows = np.zeros((2, vocabulary.bitmask_width), np.int32)
        for row, grammar in zip(rows, (read, compiled), strict=True):
            constraint = grammar.start().unwrap()
            constraint.fill(row)
        assert rows[0].any()
        assert (rows[0] == rows[1]).all()
    finally:
        service.close()
        sandbox.close()
