"""The terminal check: what ends as a success has something in it, and one rule decides that."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.embedded.engine import Engine, run
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Failed, Finished, FinishReason, Terminal, Usage
from engine_adapter.sampling import SamplingParams
from engine_adapter.terminal import Payload, TerminalRule, checked, usable
from structout import Choice, ErrorKind, GrammarError
from structout.compile import CompileService
from structout.discovery import discover
from tests.fakes import BYTES, TriePlugin
from tests.scripted import ScriptedRunner

EMPTY = "[UNUSABLE_BACKEND_RESPONSE] empty response payload"
PAYLOADS = st.builds(
    Payload,
    text=st.sampled_from(["", "text"]),
    tokens=st.integers(0, 1),
    tool_calls=st.integers(0, 1),
    vector=st.integers(0, 1),
    ran_out=st.booleans(),
    complete=st.sampled_from([None, True, False]),
)


@given(PAYLOADS)
def test_a_success_has_a_payload_and_its_grammar_is_complete_or_it_ran_out(payload: Payload) -> None:
    error = usable(payload)
    has_any = bool(payload.text or payload.tokens or payload.tool_calls or payload.vector)
    match payload.complete:
        case True:
            assert error is None
        case _ if not has_any:
            assert error is not None
            assert (error.kind, error.message) == (ErrorKind.UNUSABLE_RESPONSE, EMPTY)
        case False:
            assert (error is None) == payload.ran_out
        case None:
            assert error is None


def finished(text: str = "ab", **fields: object) -> Finished:
    whole = Finished(
        text=text,
        token_ids=(1, 2),
        reason=FinishReason.STOP,
        usage=Usage(prompt_tokens=1, completion_tokens=2),
    )
    return attrs.evolve(whole, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "complete", "is_success"),
    [
        (finished(), None, True),
        (finished(), True, True),
        (finished(), False, False),
        (finished(reason=FinishReason.LENGTH), False, True),
        (finished("", token_ids=(), stop_token_id=7), None, False),
        (finished("", token_ids=(), stop_token_id=7), True, True),
        (finished("", stop_string="\n"), None, False),
        (finished("", stop_string="\n"), True, True),
        (finished("\n", stop_string="\n"), None, True),
        (finished(""), None, True),  # tokens that are no text, which whoever asked for tokens gets
    ],
)
def test_how_a_request_ends_that_the_engine_would_finish(
    end: Finished, complete: bool | None, is_success: bool
) -> None:
    assert (checked(end, complete=complete) == end) == is_success


REFUSED = GrammarError(kind=ErrorKind.UNUSABLE_RESPONSE, message="not in this house")


def generated(rule: TerminalRule) -> tuple[Terminal, Terminal]:
    """A constrained and a free request under a rule of one's own."""
    service = CompileService(discover(plugins={"trie": TriePlugin()}, entry_points=[]), BYTES)
    engine = Engine(ScriptedRunner(), service, terminal_rule=rule)
    sampling = SamplingParams(temperature=0.0)
    requests = [
        Request(id="choice", prompt=(1,), spec=Choice(("yes",)), sampling=sampling),
        Request(id="free", prompt=(1,), max_tokens=3, sampling=sampling),
    ]
    ends = {event.request_id: event.outcome for event in run(engine, requests)}
    engine.close()
    choice, free = ends["choice"], ends["free"]
    assert isinstance(choice, Finished | Failed)
    assert isinstance(free, Finished | Failed)
    return choice, free


def test_another_rule_takes_the_place_of_the_usual_one() -> None:
    seen: list[Payload] = []

    def no_room_is_no_success(payload: Payload) -> GrammarError | None:
        seen.append(payload)
        return REFUSED if payload.ran_out else None

    choice, free = generated(no_room_is_no_success)
    assert isinstance(choice, Finished)
    assert free == Failed(REFUSED)
    by_grammar = {payload.complete: payload for payload in seen}
    assert by_grammar[True] == Payload(text="yes", tokens=len(choice.token_ids), complete=True)
    assert (by_grammar[None].tokens, by_grammar[None].ran_out) == (3, True)


@pytest.mark.parametrize("verdict", ["raises", True, "no"])
def test_a_rule_that_does_not_keep_to_its_type_fails_the_request(verdict: object) -> None:
    def broken(_payload: Payload) -> GrammarError | None:
        if verdict == "raises":
            raise RuntimeError("broken")
        return verdict  # type: ignore[return-value]

    for end in generated(broken):
        assert isinstance(end, Failed)
        assert end.error.kind is ErrorKind.ENGINE_FAILURE
