"""The capability maps that ship with the backends say what can be measured, and what measuring says is right."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structout.backend import Backend, BackendInfo, Status
from structout.errors import ErrorKind, GrammarError
from structout.fuzz.case import Case, Text
from structout.fuzz.child import Child
from structout.fuzz.keywords.table import generated, pairs
from structout.fuzz.target import Target, registry
from structout.result import Err, Ok, Result
from structout.schema import reference_validator
from structout.spec import Dialect, GrammarSpec, JsonSchema, Policy
from structout.testing.capabilities import (
    VOCABULARY,
    Capability,
    CapabilityMap,
    Verdict,
    everything,
    examples,
    measure,
    observe,
)
from structout.vocabulary import Vocabulary

ROOT = Path(__file__).parents[2]
# How many keywords and pairs are measured again; the indices of outlines take longer than all the rest.
SAMPLES = {"xgrammar": 80, "llguidance": 80, "reference": 80, "outlines": 15}


def shipped(backend: str) -> CapabilityMap:
    file = registry().find(backend).unwrap().info.capabilities
    assert file is not None
    return CapabilityMap.read(file)


@pytest.mark.parametrize("backend", SAMPLES)
def test_a_shipped_map_is_what_measuring_a_sample_of_it_gives(backend: str) -> None:
    capabilities = shipped(backend)
    sample = random.Random(backend).sample(everything(), SAMPLES[backend])
    with Child(Target(backend), vocabulary=VOCABULARY) as child:
        differences = list(capabilities.differences(measure(child, sample)))
    written = f"measured with structout {capabilities.structout} and {dict(capabilities.library)}"
    again = f"pytest --structout-backend {backend} --structout-capabilities FILE"
    assert not differences, f"the map of {backend}, {written}, is out of date; {again} writes it again"


@pytest.mark.parametrize("backend", SAMPLES)
def test_a_shipped_map_has_every_keyword_and_pair(backend: str) -> None:
    capabilities = shipped(backend)
    assert capabilities.backend == backend
    assert [each.keywords for each in capabilities.capabilities] == everything()
    assert all(sum(each.counts.values()) > 0 for each in capabilities.capabilities)


@pytest.mark.parametrize("backend", SAMPLES)
def test_the_manual_has_the_totals_of_the_shipped_maps(backend: str) -> None:
    manual = ROOT / "docs" / "backends.md"
    assert "\n".join(shipped(backend).lines()) in manual.read_text(encoding="utf-8")


def test_what_is_measured_has_the_keywords_in_the_root_and_texts_that_the_validator_judges_so() -> None:
    for keywords in random.Random(0).sample(everything(), 40):
        cases = examples(keywords)
        assert len({case.spec for case in cases}) == len(cases) > 0
        for case in cases:
            assert isinstance(case.spec, JsonSchema)
            assert json.loads(case.spec.text).keys() >= set(keywords)
            validator = reference_validator(case.spec).unwrap()
            assert all(validator.is_valid(text.text) for text in case.members)
            assert not any(validator.is_valid(text.text) for text in case.strangers)


def test_every_keyword_and_pair_is_measured_once() -> None:
    dialect = Dialect.DRAFT_2020_12
    assert everything() == [*((name,) for name in generated(dialect)), *pairs(dialect)]


def test_a_map_is_read_as_it_was_written_with_a_line_for_each_entry(tmp_path: Path) -> None:
    entries = (
        Capability(("maxLength",), {Verdict.EXACT: 6}),
        Capability(("pattern",), {Verdict.EXACT: 2, Verdict.DROPPED: 4}),
        Capability(("maxLength", "pattern"), {Verdict.SOUND: 1, Verdict.REFUSED: 1, Verdict.DIED: 1}),
    )
    capabilities = CapabilityMap("mine", {"lib": "1.2"}, "0.1", entries)
    capabilities.write(tmp_path / "map.json")
    text = (tmp_path / "map.json").read_text(encoding="utf-8")
    assert CapabilityMap.read(tmp_path / "map.json") == capabilities
    assert json.loads(text)["pairs"] == {"maxLength + pattern": {"sound": 1, "refused": 1, "died": 1}}
    assert '\n"pattern": {"exact": 2, "dropped": 4}\n' in text


def test_a_map_of_another_format_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    file.write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(ValueError, match="reads format 1"):
        CapabilityMap.read(file)


def test_the_worst_verdict_counts_and_a_mixed_entry_says_so() -> None:
    mixed = Capability(("enum",), {Verdict.REFUSED: 1, Verdict.EXACT: 5})
    alike = Capability(("const",), {Verdict.EXACT: 6})
    assert (mixed.verdict, mixed.is_mixed) == (Verdict.REFUSED, True)
    assert (alike.verdict, alike.is_mixed) == (Verdict.EXACT, False)
    lines = list(CapabilityMap("mine", {}, "0.1", (mixed, alike)).lines())
    assert lines[0] == "mine: 2 keywords: 1 exact, 1 refused; 1 depending on the schema"


def test_differences_name_what_changed_and_what_is_new() -> None:
    before = CapabilityMap("mine", {}, "0.1", (Capability(("enum",), {Verdict.EXACT: 6}),))
    same = Capability(("enum",), {Verdict.EXACT: 6})
    changed = Capability(("enum",), {Verdict.DROPPED: 6})
    new = Capability(("const",), {Verdict.EXACT: 6})
    assert not list(before.differences([same]))
    assert list(before.differences([changed, new])) == [
        '"enum": {"dropped": 6}, not "enum": {"exact": 6}',
        '"const": {"exact": 6}, not in the map',
    ]


class _AnyBytes:
    """A sequence of whatever bytes, complete after each of them: a backend that enforces nothing."""

    def __init__(self, allowed: bytes, stops: frozenset[int]) -> None:
        self._allowed = [*allowed, *stops]
        self._stops = stops
        self.is_terminated = False
        self.is_accepting = True

    def fill(self, row: Any) -> Status:
        bits = np.zeros(len(row) * 32, np.uint8)
        bits[self._allowed] = 1
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)
        return Status.TERMINATED if self.is_terminated else Status.OK

    def accept(self, token: int) -> Status:
        self.is_terminated = token in self._stops
        return Status.OK


class _Compiled:
    unenforced = ()
    narrowed = ()

    def __init__(self, allowed: bytes) -> None:
        self._allowed = allowed

    def start(self, *, stop_token_ids: Any, max_rollback: int) -> _AnyBytes:
        return _AnyBytes(self._allowed, frozenset(stop_token_ids))


LAX = (Policy.SOUND, Policy.BEST_EFFORT)
# By the title of the schema: under which policies the backend compiles it, of which bytes the texts consist that it
# takes then (None: it ends the process), and the verdict, where "1" is to be taken and "2" is not.
BEHAVIOURS: dict[str, tuple[Collection[Policy], bytes | None, Verdict]] = {
    "it takes the instance alone": (tuple(Policy), b"1", Verdict.EXACT),
    "it does not take the instance": (tuple(Policy), b"3", Verdict.SOUND),
    "not under EXACT": (LAX, b"1", Verdict.SOUND),
    "under no policy": ((), b"1", Verdict.REFUSED),
    "under BEST_EFFORT alone": (LAX[1:], b"1", Verdict.DROPPED),
    "it takes a stranger under EXACT": (tuple(Policy), b"12", Verdict.DROPPED),
    "it takes a stranger under SOUND": (LAX, b"12", Verdict.DROPPED),
    "it does not live": (LAX, None, Verdict.DIED),
}


class _Loose:
    """Does what the title of a schema says."""

    def compile(self, spec: GrammarSpec) -> Result[_Compiled, GrammarError]:
        assert isinstance(spec, JsonSchema)
        policies, allowed, _ = BEHAVIOURS[json.loads(spec.text)["title"]]
        if spec.policy not in policies:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="not under this policy"))
        if allowed is None:
            os._exit(3)
        return Ok(_Compiled(allowed))


@pytest.fixture(scope="module")
def loose() -> Iterator[Child]:
    def create(_vocabulary: Vocabulary) -> Backend:
        return _Loose()

    info = BackendInfo(id="loose", create=create, spec_kinds={"json_schema"})
    with Child(Target.of_info(info), vocabulary=VOCABULARY) as child:
        yield child


@pytest.mark.parametrize("title", BEHAVIOURS)
def test_a_verdict_is_what_the_policy_and_the_texts_say(loose: Child, title: str) -> None:
    spec = JsonSchema(json.dumps({"title": title, "const": 1}))
    case = Case(spec, (Text("1", "plain"),), (Text("2", "const"),))
    assert observe(loose, case).verdict is BEHAVIOURS[title][2]


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a folder without tests."""
    command = [sys.executable, "-m", "pytest", "-p", "structout.pytest_plugin", "--collect-only", "-q"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


BACKENDS = ("--structout-backend", "reference", "--structout-backend", "llguidance")


def test_the_pytest_option_adds_a_measurement_for_each_backend_under_test(tmp_path: Path) -> None:
    collected = run_pytest(tmp_path, *BACKENDS, "--structout-capabilities", "{backend}.json")
    assert collected.returncode == 0, collected.stdout
    assert "reference::capabilities\n" in collected.stdout
    assert "llguidance::capabilities\n" in collected.stdout


def test_the_pytest_option_asks_for_backends_and_for_a_file_for_each(tmp_path: Path) -> None:
    alone = run_pytest(tmp_path, "--structout-capabilities", "map.json")
    assert "--structout-capabilities needs --structout-backend" in alone.stderr
    one_file = run_pytest(tmp_path, *BACKENDS, "--structout-capabilities", "map.json")
    assert "write {backend} where the backend's id is to stand" in one_file.stderr
