"""One server for all clients."""

from collections.abc import Generator, Iterator

import pytest

from tests.clients.serving import Server, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server") / "log") as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the end of the server's log with a test that has failed."""
    report = yield
    server = item.funcargs.get("server")
    if report.failed and isinstance(server, Server):
        report.sections.append(("the server's log", server.log_end))
    return report
