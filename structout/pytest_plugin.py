"""The kit without a test file: ``pytest --structout-backend ID``. Loaded by pytest through its entry point."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from structout.fuzz.target import Target
    from structout.testing.checks import Check, KnownFaultCheck


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("structout", "conformance of grammar backends")
    group.addoption(
        "--structout-backend",
        action="append",
        default=[],
        metavar="ID",
        help="Run the conformance kit on this backend, which must be installed; may be repeated.",
    )
    group.addoption(
        "--structout-plugin",
        action="append",
        default=[],
        metavar="MODULE:ATTRIBUTE",
        help="A plugin that is not installed, for --structout-backend; may be repeated.",
    )
    group.addoption(
        "--structout-capabilities",
        metavar="FILE",
        help="Also measure what the backend makes of each keyword of JSON Schema and of each pair, and write that; it "
        "takes minutes. {backend} in the name becomes the id.",
    )


def _alone(config: pytest.Config) -> bool:
    """Whether the checks are all that is to run, since no test was named."""
    return bool(config.getoption("--structout-backend")) and config.args_source is not pytest.Config.ArgsSource.ARGS


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if _alone(config) else None


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the checks; where no test was named they are all that runs."""
    backends: list[str] = config.getoption("--structout-backend")
    if not backends:
        if config.getoption("--structout-capabilities"):
            raise pytest.UsageError("--structout-capabilities needs --structout-backend")
        return
    plugins = tuple(config.getoption("--structout-plugin"))
    for backend in backends:
        items.extend(_items(session, backend, plugins))
    if file := config.getoption("--structout-capabilities"):
        items.extend(_map_items(session, backends, plugins, file))


def _items(session: pytest.Session, backend: str, plugins: tuple[str, ...]) -> Iterator[pytest.Item]:
    from structout.fuzz.target import Target, registry
    from structout.result import Err, Ok
    from structout.testing.checks import conformance_checks

    match registry(plugins).find(backend):
        case Err(error):
            raise pytest.UsageError(f"--structout-backend: {error}")
        case Ok(found):
            for check in conformance_checks(found.info, target=Target(backend, plugins)):
                yield ConformanceItem.from_parent(session, name=f"{backend}::{check}", check=check)


def _map_items(
    session: pytest.Session, backends: list[str], plugins: tuple[str, ...], file: str
) -> Iterator[pytest.Item]:
    from structout.fuzz.target import Target

    files = {backend: Path(file.replace("{backend}", backend)).absolute() for backend in backends}
    if len(set(files.values())) < len(files):
        raise pytest.UsageError("--structout-capabilities: write {backend} where the backend's id is to stand")
    for backend, each in files.items():
        name = f"{backend}::capabilities"
        yield CapabilitiesItem.from_parent(session, name=name, target=Target(backend, plugins), file=each)


class CapabilitiesItem(pytest.Item):
    """Measures one backend's capability map and writes it; its totals are the output."""

    def __init__(self, *, target: "Target", file: Path, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.target = target
        self.file = file

    def runtest(self) -> None:
        from structout.testing.capabilities import measured_map

        capabilities = measured_map(self.target)
        capabilities.write(self.file)
        print("\n".join(capabilities.lines()))

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


class ConformanceItem(pytest.Item):
    """One check."""

    def __init__(self, *, check: "Check | KnownFaultCheck", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.check = check

    def runtest(self) -> None:
        self.check.run()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A check's own words; a traceback only for what is no verdict."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name
