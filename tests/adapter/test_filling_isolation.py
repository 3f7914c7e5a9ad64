"""What the sandbox found slow gets a process of its own, with the backend that it was tried with."""

import functools
import os
from collections.abc import Iterator

import attrs
import pytest

from engine_adapter.filling.isolation import Isolation
from engine_adapter.filling.risky import RiskyGrammars
from structout import Choice, Err, ErrorKind
from structout.compile.failures import SHUT_DOWN
from structout.compile.sandbox import Limits, Tried
from structout.discovery import discover
from structout.processes import Stop
from tests.adapter import remote_plugin
from tests.fakes import BYTES

REGISTRY = discover(plugins={remote_plugin.NAME: remote_plugin.Plugin()})
SPEC = Choice(remote_plugin.OPTIONS)
OTHER = Choice([*remote_plugin.OPTIONS, "other"])
FAST = Tried(backend="doing", compile_s=0.09, slowest_fill_s=0.004, fills=9, grown_bytes=0)
SLOW = attrs.evolve(FAST, slowest_fill_s=0.006)
SLOW_TO_COMPILE = attrs.evolve(FAST, compile_s=0.11)


@pytest.fixture(scope="module")
def isolation() -> Iterator[Isolation]:
    limits, plugins = Limits(wall_s=60.0), [remote_plugin.NAME]
    made = Isolation(
        functools.partial(RiskyGrammars, REGISTRY, BYTES, most=1, fill_s=30.0, limits=limits, plugins=plugins)
    )
    yield made
    made.close()


def test_what_was_fast_is_compiled_here(isolation: Isolation) -> None:
    assert isolation.compile(SPEC, FAST, Stop()) is None
    assert isolation.pids() == ()


@pytest.mark.parametrize("tried", [SLOW, SLOW_TO_COMPILE], ids=["to fill", "to compile"])
def test_what_was_slow_has_a_process_as_long_as_its_grammar(isolation: Isolation, tried: Tried) -> None:
    grammar = isolation.compile(SPEC, tried, Stop()).unwrap()  # type: ignore[union-attr]
    assert (grammar.is_risky, grammar.backend.id, grammar.spec) == (True, "doing", SPEC)
    [pid] = isolation.pids()
    assert pid != os.getpid()
    assert isolation.compile(SPEC, tried, Stop()).unwrap() is grammar  # type: ignore[union-attr]
    refused = isolation.compile(OTHER, SLOW, Stop()).error  # type: ignore[union-attr]
    assert refused.kind is ErrorKind.OVERLOADED
    assert isolation.compile(OTHER, SLOW_TO_COMPILE, Stop()) is None
    del grammar
    assert isolation.compile(SPEC, SLOW, Stop()).unwrap().backend.id == "doing"  # type: ignore[union-attr]


def test_nothing_begins_once_it_is_closed() -> None:
    isolation = Isolation(functools.partial(RiskyGrammars, REGISTRY, BYTES, plugins=[remote_plugin.NAME]))
    isolation.close()
    result = isolation.compile(SPEC, SLOW, Stop())
    assert result == Err(SHUT_DOWN)
    assert isolation.pids() == ()
