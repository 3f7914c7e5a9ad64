"""A least number of tokens, and a model whose wish to end is ignored: nothing ends a text then, but a grammar that
allows nothing else."""

from collections.abc import Sequence

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.embedded.detokenize import Detokenizer
from engine_adapter.embedded.engine import Engine, run
from engine_adapter.embedded.request import Request, Waiting
from engine_adapter.embedded.request import Sequence as Running
from engine_adapter.embedded.withholding import withhold_stops
from engine_adapter.outcome import Finished, FinishReason
from engine_adapter.sampling import SamplingParams
from structout import Choice
from structout.compile import CompileService
from structout.discovery import discover
from tests.fakes import BYTES, EOS, TriePlugin, allowed
from tests.scripted import ScriptedRunner

SERVICE = CompileService(discover(plugins={"trie": TriePlugin()}, entry_points=[]), BYTES)
GREEDY = SamplingParams(temperature=0.0)


class WantsToEnd(ScriptedRunner):
    """A model that always says EOS, and "a" if it may not."""

    def logits_of(self, tokens: Sequence[int]) -> torch.Tensor:
        logits = torch.zeros(self.logit_width)
        logits[EOS], logits[ord("a")] = 9.0, 1.0
        return logits


def finished(request: Request) -> Finished:
    engine = Engine(WantsToEnd(), SERVICE)
    end = list(run(engine, [request]))[-1].outcome
    engine.close()
    assert isinstance(end, Finished), end
    return end


@pytest.mark.parametrize("spec", [None, Choice(("", "a", "aa", "aaa", "aaaa"))])
@pytest.mark.parametrize("least", [1, 3])
def test_the_stop_token_waits_for_the_least_number_of_tokens(spec: Choice | None, least: int) -> None:
    end = finished(Request(id="a", prompt=(1,), min_tokens=least, spec=spec, sampling=GREEDY))
    assert (end.text, end.reason, end.stop_token_id) == ("a" * least, FinishReason.STOP, EOS)


def test_a_grammar_that_allows_nothing_else_ends_the_text() -> None:
    end = finished(Request(id="a", prompt=(1,), min_tokens=9, spec=Choice(("aa",)), sampling=GREEDY))
    assert (end.text, end.stop_token_id) == ("aa", EOS)


def test_a_stop_string_counts_once_there_are_enough_tokens() -> None:
    request = Request(id="a", prompt=(1,), min_tokens=3, stop=("a",), sampling=GREEDY)
    end = finished(request)
    assert (end.text, end.stop_string, len(end.token_ids)) == ("aa", "a", 3)
    assert finished(attrs.evolve(request, min_tokens=2)).text == "a"


def test_a_model_that_is_not_asked_goes_on_to_the_last_token() -> None:
    request = Request(id="a", prompt=(1,), max_tokens=7, ignore_eos=True, sampling=GREEDY)
    end = finished(request)
    assert (end.token_ids, end.reason, end.text) == ((EOS,) * 7, FinishReason.LENGTH, "")
    end = finished(attrs.evolve(request, stop_token_ids=(EOS,), min_tokens=2))
    assert (end.text, end.stop_token_id) == ("aa", EOS), "what is given ends the text"


@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [
        (("", "a", "aa"), "aa", FinishReason.STOP),
        (("", "a" * 30), "a" * 7, FinishReason.LENGTH),
    ],
)
def test_a_grammar_ends_the_text_of_a_model_that_is_not_asked(
    options: Sequence[str], text: str, reason: FinishReason
) -> None:
    request = Request(id="a", prompt=(1,), max_tokens=7, ignore_eos=True, spec=Choice(options), sampling=GREEDY)
    for each in (request, attrs.evolve(request, min_tokens=7), attrs.evolve(request, stop_token_ids=())):
        end = finished(each)
        assert (end.text, end.reason) == (text, reason)
        assert end.stop_token_id == (EOS if reason is FinishReason.STOP else None)


def test_a_stop_token_that_is_given_may_end_what_the_models_own_may_not() -> None:
    request = Request(id="a", prompt=(1,), ignore_eos=True, stop_token_ids=(2,), sampling=GREEDY)
    end = finished(attrs.evolve(request, spec=Choice(("a",))))
    assert (end.text, end.stop_token_id) == ("a", 2)


TOKENS = st.frozensets(st.integers(0, 95), max_size=8)


@given(TOKENS, TOKENS, TOKENS, st.integers(0, 3), st.booleans())
def test_only_stop_tokens_are_withheld_and_only_while_tokens_are_missing_or_if_they_are_ignored(
    mask: frozenset[int], stops: frozenset[int], others: frozenset[int], generated: int, constrained: bool
) -> None:
    request, ignored = Request(id="a", prompt=(1,), min_tokens=2), stops - others
    sequence = Running(request, 0, Waiting(), stops, Detokenizer(BYTES.token), ignored, tokens=[7] * generated)
    logits, bits = torch.zeros(96), np.zeros(96, np.uint8)
    bits[list(mask)] = 1
    row = np.packbits(bits, bitorder="little").view(np.int32)
    withhold_stops(sequence, logits, row if constrained else None)
    withheld = stops if generated < 2 else ignored
    assert allowed(row, 96) == mask, "the row may be another's, too"
    expected = torch.zeros(96)
    expected[[] if constrained and not mask - withheld else sorted(withheld)] = -torch.inf
    assert torch.equal(logits, expected)
