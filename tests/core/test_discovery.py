"""Discovery: one plugin at a time, and a name for everything that is not there."""

import importlib.metadata
import logging
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from structout import BackendInfo, Choice, ErrorKind, Fault, Ok, hookimpl
from structout.discovery import DISABLE_VARIABLE, ProblemKind, Registry, discover
from structout.hookspecs import CompileEvent
from structout.spec import GrammarSpec
from tests.fakes import TriePlugin, trie_info

SPEC = Choice(("a",))


def of(**plugins: object) -> Registry:
    return discover(plugins=plugins, entry_points=[], disable=[])


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """A folder on the path in which tests install distributions by hand."""
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def install(folder: Path, name: str, source: str) -> None:
    """A distribution ``NAME-dist`` 1.0 with one module and an entry point of the same name."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}_dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[structout]\n{name} = {name}\n")


def found(folder: Path, *, disable: Sequence[str]) -> Registry:
    entry_points = [
        each
        for dist in importlib.metadata.distributions(path=[str(folder)])
        for each in dist.entry_points.select(group="structout")
    ]
    return discover(entry_points=entry_points, disable=disable)


WORKING = """
from structout import hookimpl
from tests.fakes import trie_info

@hookimpl
def structout_register_backends():
    return [trie_info({id!r})]
"""


def test_a_plugin_is_found_by_its_entry_point_and_signed_with_its_distribution(installed: Path) -> None:
    install(installed, "good_plugin", WORKING.format(id="good"))
    registry = found(installed, disable=[])
    assert not registry.problems
    assert registry.backends["good"].distribution == "good_plugin-dist 1.0"


def test_broken_and_unavailable_are_told_apart_and_harm_nobody(installed: Path) -> None:
    install(installed, "broken_plugin", "raise RuntimeError('boom')")
    install(installed, "typo_plugin", "import typo_plugin_internals")
    install(installed, "lacking_plugin", "import some_library_that_nobody_has")
    install(installed, "good_plugin", WORKING.format(id="good"))
    registry = found(installed, disable=[])
    problems = {problem.plugin: problem for problem in registry.problems}
    assert set(registry.backends) == {"good"}
    assert problems["broken_plugin"].kind is ProblemKind.BROKEN
    assert "boom" in problems["broken_plugin"].reason
    assert problems["broken_plugin"].distribution == "broken_plugin-dist 1.0"
    assert problems["lacking_plugin"].kind is ProblemKind.UNAVAILABLE
    assert "some_library_that_nobody_has" in problems["lacking_plugin"].reason


def test_the_same_id_twice_is_reported_with_both_distributions_and_used_from_neither(installed: Path) -> None:
    install(installed, "first_plugin", WORKING.format(id="same"))
    install(installed, "second_plugin", WORKING.format(id="same"))
    registry = found(installed, disable=[])
    assert not registry.backends
    assert {problem.kind for problem in registry.problems} == {ProblemKind.DUPLICATE}
    for problem in registry.problems:
        assert "first_plugin-dist 1.0" in problem.reason
        assert "second_plugin-dist 1.0" in problem.reason
    assert set(found(installed, disable=["first_plugin"]).backends) == {"same"}


@pytest.mark.parametrize("name", ["good_plugin", "good_plugin-dist", "good"])
def test_a_plugin_is_switched_off_by_its_name_its_distribution_or_its_backend(installed: Path, name: str) -> None:
    install(installed, "good_plugin", WORKING.format(id="good"))
    registry = found(installed, disable=[name])
    assert not registry.backends
    assert [problem.kind for problem in registry.problems] == [ProblemKind.DISABLED]


def test_the_environment_switches_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISABLE_VARIABLE, " one , trie,")
    registry = discover(plugins={"one": TriePlugin(trie_info("x")), "two": TriePlugin()}, entry_points=[])
    assert not registry.backends
    assert len(registry.problems) == 2


def test_a_requirement_that_is_not_installed_makes_a_backend_unavailable_and_leaves_its_siblings() -> None:
    lacking = attrs.evolve(trie_info("lacking"), requires=("no-such-dist>=1",), install_hint="pip install it")
    too_old = attrs.evolve(trie_info("too_old"), requires=("attrs>=1000",))
    present = attrs.evolve(trie_info("present"), requires=("attrs",))
    nonsense = attrs.evolve(trie_info("nonsense"), requires=("attrs >= one",))
    registry = of(plugin=TriePlugin(lacking, too_old, present, nonsense))
    kinds = {problem.backend: problem.kind for problem in registry.problems}
    assert set(registry.backends) == {"present"}
    assert kinds == {
        "lacking": ProblemKind.UNAVAILABLE,
        "too_old": ProblemKind.UNAVAILABLE,
        "nonsense": ProblemKind.BROKEN,
    }


def test_one_requirement_may_be_given_alone() -> None:
    registry = of(plugin=TriePlugin(attrs.evolve(trie_info(), requires="no-such-dist>=1")))
    assert [problem.reason for problem in registry.problems] == ["it needs no-such-dist>=1"]


@pytest.mark.parametrize(
    "source",
    [
        "raise ModuleNotFoundError(name=5)",
        "class Evil(Exception):\n    def __str__(self): raise self\nraise Evil",
        "raise KeyError",
    ],
)
def test_whatever_a_plugin_raises_while_it_loads_the_others_are_there(installed: Path, source: str) -> None:
    install(installed, "broken_plugin", source)
    install(installed, "good_plugin", WORKING.format(id="good"))
    registry = found(installed, disable=[])
    assert set(registry.backends) == {"good"}
    assert [(each.plugin, each.kind) for each in registry.problems] == [("broken_plugin", ProblemKind.BROKEN)]


def test_an_entry_point_that_is_none_is_broken() -> None:
    nonsense = importlib.metadata.EntryPoint("nonsense", "not an entry point", "structout")
    registry = discover(plugins={"good": TriePlugin()}, entry_points=[nonsense], disable=[])
    assert set(registry.backends) == {"trie"}
    assert [problem.kind for problem in registry.problems] == [ProblemKind.BROKEN]


def test_a_distribution_without_a_version_satisfies_nothing(installed: Path) -> None:
    info = installed / "versionless-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: versionless\n")
    registry = of(plugin=TriePlugin(attrs.evolve(trie_info("lame"), requires=("versionless>=1",)), trie_info("good")))
    assert set(registry.backends) == {"good"}
    assert [problem.backend for problem in registry.problems] == ["lame"]


def test_a_plugin_for_another_api_version_is_broken() -> None:
    registry = of(plugin=TriePlugin(attrs.evolve(trie_info(), api_version=99)))
    assert not registry.backends
    assert "version 99" in registry.problems[0].reason


class UnknownHook:
    @hookimpl
    def structout_register_backend(self) -> list[BackendInfo]:
        """Misspelt: the real name has an s."""
        return []


class Raises:
    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        raise SystemExit("no")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise self


class RaisesUnspeakably:
    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        raise Unspeakable


class RequiresNumbers:
    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        return [attrs.evolve(trie_info("numbers"), requires=(5,))]  # type: ignore[arg-type]


class RequiresNothing:
    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        return [attrs.evolve(trie_info("nothing"), requires=None)]  # type: ignore[arg-type]


class ReturnsNonsense:
    @hookimpl
    def structout_register_backends(self) -> list[object]:
        return [trie_info("kept"), "xgrammar"]


@pytest.mark.parametrize(
    "plugin",
    [
        UnknownHook(),
        Raises(),
        RaisesUnspeakably(),
        RequiresNumbers(),
        RequiresNothing(),
        SimpleNamespace(),
        object(),
    ],
    ids=type,
)
def test_a_plugin_that_breaks_the_rules_is_broken_and_named(plugin: object) -> None:
    registry = of(bad=plugin, good=TriePlugin())
    assert set(registry.backends) == {"trie"}
    [problem] = registry.problems
    assert (problem.plugin, problem.kind) == ("bad", ProblemKind.BROKEN)


def test_what_is_no_description_is_dropped_and_the_rest_kept() -> None:
    registry = of(bad=ReturnsNonsense())
    assert set(registry.backends) == {"kept"}
    assert "str instead of BackendInfo" in registry.problems[0].reason


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "Has Space"}, "must match"),
        ({"spec_kinds": {"regexp"}}, "unknown spec kinds"),
        ({"spec_kinds": ()}, "empty"),
    ],
)
def test_a_description_is_checked_where_it_is_made(fields: Mapping[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attrs.evolve(trie_info(), **fields)  # type: ignore[arg-type]


def test_finding_a_backend_that_is_not_there_says_what_became_of_it() -> None:
    registry = of(one=TriePlugin(attrs.evolve(trie_info(), requires=("no-such-dist",), install_hint="pip install it")))
    for name, hint in (("trie", "pip install it"), ("nowhere", "there are none")):
        match registry.find(name):
            case Ok():
                pytest.fail("it is not there")
            case error:
                assert error.error.kind is ErrorKind.UNAVAILABLE
                assert error.error.fault is Fault.CALLER
                assert error.error.hint == hint


class Votes(TriePlugin):
    def __init__(self, weights: object, forbidden: object = None) -> None:
        super().__init__(trie_info(f"b{id(self)}"))
        self.weights, self.forbidden = weights, forbidden

    @hookimpl
    def structout_prefer_backends(self, spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> object:
        return self.weights

    @hookimpl
    def structout_forbid_backends(self, spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> object:
        return self.forbidden


def test_weights_add_up_and_what_one_forbids_stays_forbidden_in_any_order() -> None:
    one, two = Votes({"a": 1.0, "b": 2.0}, {"a": "x"}), Votes({"a": 3.0}, {"a": "y", "b": "z"})
    for registry in (of(one=one, two=two), of(two=two, one=one)):
        assert registry.preferences(SPEC, []) == {"a": 4.0, "b": 2.0}
        assert registry.forbidden(SPEC, []) == {"a": "x; y", "b": "z"}


class RaisingMapping(dict[str, float]):
    def items(self) -> Any:
        raise Unspeakable

    def values(self) -> Any:
        raise Unspeakable


@pytest.mark.parametrize(
    "vote",
    [5, {"a": "many"}, {"a": math.nan}, {"a": 10**400}, {"a": 10**5000}, RaisingMapping(a=1.0)],
    ids=["number", "text", "nan", "large", "unprintable", "raises"],
)
def test_a_vote_of_a_wrong_type_counts_as_silence_and_is_logged(vote: object, caplog: pytest.LogCaptureFixture) -> None:
    registry = of(bad=Votes(vote), good=Votes({"a": 1.0}))
    with caplog.at_level(logging.ERROR):
        assert registry.preferences(SPEC, []) == {"a": 1.0}
    assert "prefer_backends of plugin bad" in caplog.text


def test_reasons_that_cannot_be_read_count_as_silence(caplog: pytest.LogCaptureFixture) -> None:
    registry = of(bad=Votes(None, RaisingMapping(a=1.0)), worse=Votes(None, {"a": 5}), good=Votes(None, {"a": "no"}))
    with caplog.at_level(logging.ERROR):
        assert registry.forbidden(SPEC, []) == {"a": "no"}
    assert "plugin bad: Unspeakable" in caplog.text
    assert "plugin worse" in caplog.text


class Observes:
    def __init__(self, *, raises: bool = False) -> None:
        self.seen: list[CompileEvent] = []
        self.raises = raises

    @hookimpl
    def structout_compile_finished(self, event: CompileEvent) -> None:
        self.seen.append(event)
        if self.raises:
            raise RuntimeError("observer broke")


def test_observers_are_called_one_by_one_and_one_that_raises_is_logged_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, last = Observes(raises=True), Observes()
    event = CompileEvent(spec=SPEC, backend=None, seconds=0.1, error=None)
    of(first=first, last=last).compile_finished(event)
    assert first.seen == last.seen == [event]
    assert "plugin first" in caplog.text
