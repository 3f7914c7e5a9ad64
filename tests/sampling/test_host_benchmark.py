"""What ``benchmarks.record_masks`` writes down, and what ``benchmarks.host_path`` finds in it, but for the times."""

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchmarks import host_path
from benchmarks.mask_sequences import MaskSequences
from benchmarks.record_masks import walk
from engine_adapter.outcome import Finished, FinishReason, Usage
from tests.fakes import BYTES, EOS, allowed, trie_grammar

AB, CD = map(BYTES.tokens().index, (b"ab", b"cd"))
MASKS = [np.full(4, word, np.int32).tobytes() for word in (1, 2, 3)]
GENERATIONS = [[0, 1, 0, 2], [], [1, 1], [2, 0, 0]]
SEQUENCES = MaskSequences.of(128, [[MASKS[mask] for mask in each] for each in GENERATIONS])


def test_each_mask_is_kept_once_and_every_step_is_found_again(tmp_path: Path) -> None:
    SEQUENCES.save(tmp_path / "masks.npz")
    read = MaskSequences.read(tmp_path / "masks.npz")
    assert (read.vocabulary, len(read.masks)) == (128, 3)
    found = [[read.masks[mask].tobytes() for mask in each] for each in read.generations]
    assert found == [[MASKS[mask] for mask in each] for each in GENERATIONS]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", masks=np.zeros((2, 3), np.int32))
    with pytest.raises(typer.BadParameter, match="no sequences"):
        MaskSequences.read(tmp_path / "other.npz")
    MaskSequences.of(90, [[]]).save(tmp_path / "empty.npz")
    with pytest.raises(typer.BadParameter, match="no masks"):
        MaskSequences.read(tmp_path / "empty.npz")


@pytest.mark.parametrize("reason", list(FinishReason))
def test_a_generation_s_masks_are_those_that_its_tokens_were_drawn_by(reason: FinishReason) -> None:
    usage = Usage(prompt_tokens=1, completion_tokens=2)
    end = Finished(text="ab", token_ids=tuple(b"ab"), reason=reason, usage=usage)
    masks = [np.frombuffer(mask, np.int32) for mask in walk(trie_grammar("ab", "acd", "x").start().unwrap(), end)]
    expected = [{ord("a"), ord("x"), AB}, {ord("b"), ord("c"), CD}]
    # Nothing was drawn behind the last token of a text that was cut off.
    expected += [{EOS}] if reason is FinishReason.STOP else []
    assert [allowed(mask, BYTES.padded_size) for mask in masks] == expected


def test_the_host_path_s_figures_say_what_was_measured(tmp_path: Path) -> None:
    """Two rows go through three generations: the first until its end, then the third in its place."""
    SEQUENCES.save(tmp_path / "masks.npz")
    app = typer.Typer()
    app.command()(host_path.main)
    options = ["--batch", "1", "--batch", "2", "--rounds", "2", "--json"]
    ran = CliRunner().invoke(app, [str(tmp_path / "masks.npz"), *options])
    found = json.loads(ran.output)
    within = all(found[f"batch {rows}"]["us a step"] <= found[f"batch {rows}"]["bound"] for rows in (1, 2))
    shares = [found["batch 1"]["sent"], found["batch 2"]["sent"]]
    assert ran.exit_code == int(not (within and max(shares) <= host_path.SENT_SHARE))
    assert (found["generations"], found["steps"]) == (3, 9)
    assert [found[f"batch {rows}"]["steps"] for rows in (1, 2)] == [9, 4]
    # One row at a time, three masks with a slot's number each; two rows, with two numbers.
    assert shares == pytest.approx([3 * (8 + 16) / (9 * 16), (16 + 2 * 16 + 16 + 16) / (8 * 16)])
    assert all(found[f"batch {rows}"]["looked up, us a row"] > 0 for rows in (1, 2))


def test_more_rows_than_generations_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="record more"):
        host_path.replay(
            SEQUENCES,
            host_path.Recorded.grammars(SEQUENCES),
            4,
            steps=9,
            entries=1,
            device=host_path.device(),
        )
