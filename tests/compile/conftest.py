"""Sandboxes for the tests of the sandbox."""

from collections.abc import Iterator

import pytest

from structout.compile.sandbox import Sandbox
from structout.compile.sandbox.installed import libraries
from structout.discovery import Registry
from structout.fuzz.vocabulary import byte_vocabulary
from structout.processes import ForkServer
from tests.compile.hazards import PLUGIN
from tests.compile.sandboxes import HAZARDS, LIMITS, Make


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> ForkServer:
    """One for all tests: else each sandbox would load all the libraries that are installed."""
    return ForkServer.shared(libraries(HAZARDS))


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Sandbox] = []

    def make(registry: Registry = HAZARDS, **options: object) -> Sandbox:
        settings: dict[str, object] = {"workers": 1, "plugins": [PLUGIN], "limits": LIMITS} | options
        made.append(Sandbox(registry, byte_vocabulary(), **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.close()
