"""What ``structout bench`` prints, whatever the figures are, and what it says where it cannot measure."""

import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from typer.testing import CliRunner

from structout.cli.app import app
from structout.cli.bench import compile as compiling
from structout.cli.bench import e2e, masks, promotion, recording, report, sampler, timing
from structout.cli.bench.peers import PEERS
from structout.cli.bench.recording import Masks
from structout.cli.bench.report import BenchError
from structout.compile import CompileService
from structout.discovery import discover
from structout.vocabulary import Vocabulary
from tests.fakes import BYTES

TINY = Masks("tiny", 100, np.array([[-1, -1, -1, 15], [7, 0, 0, 0]], np.int32))


def test_a_round_s_time_is_that_of_its_calls_and_the_ratio_of_the_peer_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preparing takes no time; a warm-up does not count."""
    now = itertools.count()
    clock = [0]
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))

    def way(cost: int) -> timing.Way:
        def prepare(number: int) -> Callable[[], object]:
            clock[0] += 1_000_000
            return lambda: clock.__setitem__(0, clock[0] + cost * (number + 1))

        return prepare

    ways = {timing.OWN: way(1_000), "peer": way(3_000)}
    [figure] = timing.compare({"a": 1}, ways, calls=3, rows=2, seconds=10.0, clock=lambda: clock[0])
    assert (figure.own_us, figure.peer_us, figure.ratio) == pytest.approx((1.0, 3.0, 3.0))
    assert figure.rounds >= 3


def test_every_peer_is_compared_with_structout_round_by_round() -> None:
    rounds = {timing.OWN: [1.0, 2.0, 4.0], "a": [3.0, 2.0, 4.0], "b": [1.0, 4.0, 40.0]}
    found = timing.figures({}, rounds, unit=10.0)
    assert [(each.peer, each.own_us, each.peer_us, each.ratio, each.rounds) for each in found] == [
        ("a", 20.0, 30.0, 1.0, 3),
        ("b", 20.0, 40.0, 2.0, 3),
    ]


def test_each_side_has_as_many_turns_as_the_others() -> None:
    turns: list[str] = []
    sides = {name: partial(turns.append, name) for name in "abc"}
    spent = timing.in_turn(sides, 0.0, min_rounds=5)
    assert {name: len(each) for name, each in spent.items()} == dict.fromkeys("abc", 5)
    assert all(sorted(turns[at : at + 3]) == ["a", "b", "c"] for at in range(0, 15, 3))
    assert len({tuple(turns[at : at + 3]) for at in range(0, 15, 3)}) > 1


def test_the_sampler_s_figures_say_what_was_compared() -> None:
    pytest.importorskip("xgrammar")
    figures = sampler.measure([TINY], seconds=0.01)
    cases = {(figure.case["rows"], figure.case["batch"]) for figure in figures}
    # The row of 100 is dense, that of 3 sparse.
    assert cases == {(kind.name, batch) for kind in sampler.KINDS for batch in sampler.BATCHES}
    assert all(figure.own_us > 0 and figure.peer_us > 0 and figure.ratio > 0 for figure in figures)


def test_the_masks_figures_say_what_was_compared(vocabulary: Vocabulary) -> None:
    figures = masks.measure(vocabulary, seconds=0.01)
    found = {(figure.case["backend"], figure.case["batch"]) for figure in figures}
    assert found == set(itertools.product(PEERS, masks.BATCHES))


def test_the_promotion_s_figures_are_of_many_blocked_beside_a_few() -> None:
    [figure] = promotion.measure(150, seconds=0.01, steps=2)
    assert (dict(figure.case), figure.peer) == ({"blocked": 150, "ready": promotion.READY}, "100 blocked")
    assert figure.own_us > 0
    assert figure.peer_us > 0


def test_more_requests_cannot_become_ready_than_are_blocked() -> None:
    result = CliRunner().invoke(app, ["bench", "promotion", "--blocked", "3", "--json"])
    assert result.exit_code == 2
    assert "3 are blocked" in json.loads(result.stdout)["error"]["message"]


def test_compiling_is_compared_in_process_and_with_the_sandbox(vocabulary: Vocabulary) -> None:
    schemas = [*(schema for schema, _ in recording.DOCUMENTS), compiling.RISKY, {"type": "no such type"}]
    found = {
        (each.case["backend"], each.case["way"], each.case["text"]): each.case["schemas"]
        for each in compiling.measure(vocabulary, schemas, seconds=0.01)
    }
    ways = {"in process": len(recording.DOCUMENTS), "by the sandbox": 1}  # what is refused is not measured
    assert found == {(peer, way, text): ways[way] for peer in PEERS for way in ways for text in compiling.TEXTS}


def test_nothing_is_compared_where_every_schema_is_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(BenchError, match="no backend takes"):
        compiling.measure(vocabulary, [{"type": "no such type"}], seconds=0.01)


def test_schemas_are_read_from_lines_as_they_are_or_under_their_name(tmp_path: Path) -> None:
    file = tmp_path / "schemas.jsonl"
    file.write_text('{"type": "string"}\n\n{"id": 3, "schema": {"type": "null"}}\ntrue\n')
    assert compiling.read(file) == [{"type": "string"}, {"type": "null"}]


@pytest.mark.parametrize("text", ["{", "true\n", ""])
def test_a_file_without_schemas_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "none.jsonl"
    file.write_text(text)
    result = CliRunner().invoke(app, ["bench", "compile", "--schemas", str(file), "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], "none.jsonl" in error["message"]) == ("unavailable", True)
    assert error["hint"]


def test_a_watch_adds_up_what_calls_take_or_what_lies_before_their_end() -> None:
    now = itertools.count(step=10)
    watch = e2e.Watch(lambda: next(now))
    assert watch.over(len)("abc") == 3
    assert watch.ns == 10
    watch.start()
    assert watch.up_to(len)("abc") == 3
    assert watch.ns == 20


def test_a_row_ends_with_its_first_stop_token() -> None:
    assert e2e.up_to_end([5, 2, 6, 2], [2, 3]) == (5, 2)
    assert e2e.up_to_end([5, 6], [2, 3]) == (5, 6)


def test_a_model_that_is_not_there_is_refused_with_a_hint(tmp_path: Path) -> None:
    pytest.importorskip("xgrammar")
    result = CliRunner().invoke(app, ["bench", "e2e", "--model", str(tmp_path), "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], str(tmp_path) in error["message"]) == ("unavailable", True)
    assert error["hint"]


def test_without_transformers_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    result = CliRunner().invoke(app, ["bench", "e2e", "--json"])
    assert result.exit_code == 2
    assert "structout[embedded" in json.loads(result.stdout)["error"]["hint"]


@pytest.mark.model
def test_both_sides_generate_as_much_and_every_measure_is_told() -> None:
    pytest.importorskip("xgrammar")
    with e2e.opened("smollm2") as local:
        tasks = [e2e.task(local, row) for row in range(3)]
        greedy = [attrs.evolve(setting, temperature=0.0) for setting in e2e.SETTINGS]
        for setting in greedy:
            texts = [side(local, setting)(tasks, 6, 0)[0] for side in e2e.SIDES.values()]
            assert [[len(text) for text in each] for each in texts] == [[6, 6, 6]] * len(texts)
            assert setting.forces or all(each == texts[0] for each in texts)  # forced tokens may spell it otherwise
        extent = e2e.Extent(max_tokens=2, seconds=0.0, min_rounds=1, batches=(1, 2))
        figures = e2e.measure(local, extent, temperature=0.8)
    assert {(each.case["tokens"], each.case["batch"], each.case["measure"]) for each in figures} == set(
        itertools.product((setting.name for setting in e2e.SETTINGS), extent.batches, e2e.MEASURES)
    )
    assert all(each.own_us > 0 and each.peer_us > 0 for each in figures)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    for backend in PEERS:
        pytest.importorskip(backend)
    return BYTES


def test_recorded_masks_come_back_from_their_file(vocabulary: Vocabulary, tmp_path: Path) -> None:
    service = CompileService(discover(), vocabulary)
    recorded = recording.record("bytes", vocabulary, service)
    service.close()
    texts = [json.dumps(document) for _, document in recording.DOCUMENTS]
    assert len(recorded.rows) == sum(len(recording.tokens_of(text, vocabulary)) for text in texts)
    recorded.save(tmp_path / "bytes.npz")
    read = recording.read(tmp_path / "bytes.npz")
    assert (read.name, read.vocabulary) == ("bytes", vocabulary.padded_size)
    assert (read.rows == recorded.rows).all()


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.zeros((1, 1), np.int32)},
        {"masks": np.zeros((1, 1), np.int64)},
        {"masks": np.zeros(1, np.int32)},
        {"masks": np.zeros((0, 1), np.int32)},
        {"masks": np.zeros((1, 1), np.int32), "vocabulary": np.int64(33)},
    ],
)
def test_a_file_without_masks_is_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(BenchError, match=r"bad\.npz") as caught:
        recording.read(tmp_path / "bad.npz")
    assert caught.value.error.hint


def test_what_is_no_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "sampler", "--masks", str(tmp_path / "none.npz"), "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], "none.npz" in error["message"]) == ("unavailable", True)


def test_an_unknown_dtype_is_refused() -> None:
    result = CliRunner().invoke(app, ["bench", "sampler", "--dtype", "int8"])
    assert result.exit_code == 2
    assert "bfloat16" in result.output


def test_a_drawing_is_of_a_kind_that_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"neither \.svg nor \.png"):
        report.check_plot(tmp_path / "figures.pdf")


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_figures_can_be_drawn(tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / f"figures.{suffix}"
    figure = timing.Figure({"batch": 8}, own_us=1.0, peer="a peer", peer_us=2.5, ratio=2.5, rounds=3)
    report.show("sampler", {"processor": "one"}, [figure], report.Options(plot=plot))
    assert "2.50" in capsys.readouterr().out
    assert plot.stat().st_size > 1000


def test_json_has_machine_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    figure = timing.Figure({"batch": 8}, own_us=1.0, peer="a peer", peer_us=2.5, ratio=2.5, rounds=3)
    report.show("sampler", {"processor": "one"}, [figure], report.Options(as_json=True))
    shown = json.loads(capsys.readouterr().out)
    assert shown == {
        "benchmark": "sampler",
        "machine": {"processor": "one"},
        "unit": "microseconds of process time a row",
        "figures": [{"case": {"batch": 8}, "own_us": 1.0, "peer": "a peer", "peer_us": 2.5, "ratio": 2.5, "rounds": 3}],
    }
