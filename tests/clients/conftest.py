"""One server for all clients."""

from collections.abc import Generator, Iterator
from typing import Final

import pytest

from tests.serve.process import ServeProcess, structout_serve

SHOWN: Final = 6_000
"""How many characters of the end of the server's log are shown with a failed test."""


@pytest.fixture(scope="session")
def server() -> Iterator[ServeProcess]:
    with structout_serve("--grpc-port", "0") as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the end of the server's log with a test that has failed."""
    report = yield
    server = item.funcargs.get("server")
    if report.failed and isinstance(server, ServeProcess):
        report.sections.append(("the server's log", server.log.read_text()[-SHOWN:]))
    return report
