"""Backends in child processes, for the modules that ask nothing special of them."""

from collections.abc import Iterator

import pytest

from structout.fuzz.child import Child
from tests.fuzz.hazards import faulty_choices, good_choices, target


@pytest.fixture(scope="module")
def good() -> Iterator[Child]:
    with Child(target(good_choices)) as child:
        yield child


@pytest.fixture(scope="module")
def faulty() -> Iterator[Child]:
    with Child(target(faulty_choices)) as child:
        yield child
