"""What `open_local` puts together: with a sandbox, what it found slow is compiled elsewhere, and `close` ends all."""

import functools
import gc
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import attrs
import pytest

from engine_adapter.embedded import local as local_module
from engine_adapter.embedded.local import open_local
from engine_adapter.filling.risky import RiskyGrammars
from structout import BackendInfo, Choice, Ok, Result
from structout.backend import Backend
from structout.compile.sandbox import Tried
from structout.discovery import Registry, discover
from structout.errors import GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.processes import Stop
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary
from tests.fakes import BYTES, TriePlugin, trie_info
from tests.scripted import ScriptedRunner

ROOT = Path(__file__).resolve().parents[2]
TRIED = Tried(backend="trie", compile_s=1.0, slowest_fill_s=1.0, fills=1, grown_bytes=0)
RISKY = Choice(("risky for what was never measured",))


class Closes:
    made: ClassVar[list["Closes"]] = []
    is_closed = False

    def __init__(self) -> None:
        self.made.append(self)

    def close(self) -> None:
        self.is_closed = True


class Through(Closes):
    """A sandbox that everything comes through."""

    def __init__(self, registry: Registry, vocabulary: Vocabulary, *, workers: int, warm: Sequence[str]) -> None:
        super().__init__()
        self.workers = workers
        self.warm = warm
        self.is_full = False

    def wait_until_full(self, _timeout_s: float) -> bool:
        self.is_full = True
        return True

    def run(self, spec: GrammarSpec, **_: object) -> Result[Tried, GrammarError]:
        return Ok(TRIED)


class Elsewhere(Closes):
    """Compiles everything apart, in name."""

    def __init__(self, make: Callable[[str], RiskyGrammars]) -> None:
        super().__init__()
        self.make = make

    def compile(self, spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError]:
        assert tried is TRIED
        return BoundBackend.create(trie_info("elsewhere"), None, BYTES).unwrap().compile(spec)


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch)


def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: object, **__: object) -> Any:
        return SimpleNamespace(runner=ScriptedRunner(), tokenizer=None, eos_token_ids=())

    for name, value in {
        "load": loaded,
        "from_huggingface": lambda *_, **__: BYTES,
        "Sandbox": Through,
        "Isolation": Elsewhere,
    }.items():
        monkeypatch.setattr(local_module, name, value)
    monkeypatch.setattr(Closes, "made", [])


def test_what_was_loaded_is_out_of_the_garbage_collectors_sight_and_threads_take_turns_sooner(
    request: pytest.FixtureRequest,
) -> None:
    request.addfinalizer(gc.unfreeze)
    request.addfinalizer(functools.partial(sys.setswitchinterval, sys.getswitchinterval()))
    gc.unfreeze()
    sys.setswitchinterval(0.005)
    registry = discover(plugins={"test": TriePlugin(trie_info("trie"))}, entry_points=[], disable=[])
    local = open_local("scripted", force_tokens=False, registry=registry)
    assert not any(each is registry for each in gc.get_objects())
    assert sys.getswitchinterval() == pytest.approx(local_module.SWITCH_S)
    local.close()


def test_backends_that_may_be_chosen_are_loaded_and_others_when_they_are_named() -> None:
    started: list[str] = []

    def info(backend: str, *, by_name_only: bool) -> BackendInfo:
        good = trie_info(backend)

        def create(vocabulary: Vocabulary) -> Backend:
            started.append(backend)
            return good.create(vocabulary)

        return attrs.evolve(good, create=create, by_name_only=by_name_only)

    plugin = TriePlugin(info("chosen", by_name_only=False), info("named", by_name_only=True))
    local = open_local(
        "scripted", force_tokens=False, registry=discover(plugins={"test": plugin}, entry_points=[], disable=[])
    )
    assert started == ["chosen"]
    assert isinstance(local.service.backend("named"), Ok)
    assert started == ["chosen", "named"]
    local.close()


LEFT = """
import atexit, gc
atexit.register(lambda: print("frozen:", gc.get_freeze_count()))
from tests.embedded import test_local
with test_local.pytest.MonkeyPatch.context() as patch:
    test_local.patched(patch)
    test_local.open_local("scripted", force_tokens=False).close()
print("frozen:", gc.get_freeze_count())
"""


def test_at_the_end_everything_is_freed_as_ever() -> None:
    ended = subprocess.run([sys.executable, "-c", LEFT], cwd=ROOT, capture_output=True, text=True, check=True)
    running, end = re.findall(r"frozen: (\d+)", ended.stdout)
    assert int(running) > 0
    assert int(end) == 0


@pytest.mark.parametrize(("workers", "backend"), [(0, "trie"), (3, "elsewhere")])
def test_with_a_sandbox_what_was_slow_is_compiled_elsewhere(workers: int, backend: str) -> None:
    registry = discover(plugins={"test": TriePlugin(trie_info("trie"))}, entry_points=[], disable=[])
    local = open_local("scripted", force_tokens=False, registry=registry, sandbox_workers=workers)
    assert local.service.compile(RISKY, backend="trie").unwrap().backend.id == backend
    local.close()
    assert [id(each) for each in Closes.made] == ([id(local.sandbox), id(local.isolation)] if workers else [])
    if isinstance(local.sandbox, Through):
        assert local.sandbox.is_full, "no request waits for it"
        assert local.sandbox.warm == list(registry.backends)
    assert [each.workers for each in Closes.made if isinstance(each, Through)] == ([workers] if workers else [])
    assert all(each.is_closed for each in Closes.made)


def test_who_observes_hears_how_long_requests_wait() -> None:
    heard: list[GrammarError | None] = []

    class Hears:
        def waited(self, seconds: float, error: GrammarError | None) -> None:
            heard.append(error)

    registry = discover(plugins={"test": TriePlugin(trie_info("trie"))}, entry_points=[], disable=[])
    local = open_local("scripted", force_tokens=False, registry=registry, observer=Hears())
    local.service.compile(RISKY, backend="trie")
    local.close()
    assert heard == [None]
