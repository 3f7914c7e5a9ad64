"""What ``structout bench`` prints, whatever the figures are, and what it says where it cannot measure."""

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from structout.cli.app import app
from structout.cli.bench import masks, recording, report, sampler, timing
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
    monkeypatch.setattr(time, "process_time_ns", lambda: clock[0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))

    def way(cost: int) -> timing.Way:
        def prepare(number: int) -> Callable[[], object]:
            clock[0] += 1_000_000
            return lambda: clock.__setitem__(0, clock[0] + cost * (number + 1))

        return prepare

    [figure] = timing.compare({"a": 1}, {timing.OWN: way(1_000), "peer": way(3_000)}, calls=3, rows=2, seconds=10.0)
    assert (figure.own_us, figure.peer_us, figure.ratio) == pytest.approx((1.0, 3.0, 3.0))
    assert figure.rounds >= 3


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
        "figures": [{"case": {"batch": 8}, "own_us": 1.0, "peer": "a peer", "peer_us": 2.5, "ratio": 2.5, "rounds": 3}],
    }
