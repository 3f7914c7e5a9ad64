"""Stop strings of requests with a grammar, from the engine core to the text that the client gets."""

import codecs
from types import SimpleNamespace
from typing import Any

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.embedded.cuts import Spelling
from engine_adapter.vllm.admission import Admission
from engine_adapter.vllm.causes import cause
from engine_adapter.vllm.grammar import started
from engine_adapter.vllm.stopping import Cut, Stopping, cut_of, cutting, handed_over, stopping, waiting
from structout import Err, ErrorKind, GrammarError, Ok
from tests.embedded.test_stops import CUT_STOPS, OPTIONS, TEXT_TOKENS, expected
from tests.fakes import BYTES, EOS, MATCHER_TYPES, MatcherType, TrieMatcher, trie_grammar
from tests.vllm.support import Params

SPELLING = Spelling(BYTES)


def asked(stops: list[str], *, include_stop: bool = False, min_tokens: int = 0) -> Params:
    """As the front end sends it."""
    given = Params(all_stop_token_ids={EOS}, stop=stops, include_stop_str_in_output=include_stop, min_tokens=min_tokens)
    assert handed_over(given, has_grammar=True) == Ok(None)
    return given


@attrs.define(slots=False)
class Detokenizer:
    """As vLLM's, with a stop token for each byte: looks for nothing before it has ``min_tokens``."""

    min_tokens: int = 0
    output_text: str = ""
    token_ids: list[int] = attrs.field(factory=list)
    decoder: Any = attrs.field(factory=codecs.getincrementaldecoder("utf-8"))

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> str | None:
        self.token_ids += new_token_ids
        shown = new_token_ids[:-1] if stop_terminated else new_token_ids
        self.output_text += self.decoder.decode(b"".join(map(BYTES.token, shown)))
        return None if len(self.token_ids) <= self.min_tokens else "looked for"


@attrs.define
class Output:
    """As vLLM's ``EngineCoreOutput``."""

    new_token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: Any = None
    request_id: str = "id"


class Client:
    """vLLM's front end, of one request."""

    def __init__(self, params: Params) -> None:
        self.stopped_by: Any = None
        make = waiting(lambda tokenizer, request: Detokenizer())
        self.detokenizer = make("a tokenizer", SimpleNamespace(sampling_params=params))
        self.request_states = {"id": SimpleNamespace(detokenizer=self.detokenizer)}

    @property
    def process_outputs(self) -> Any:
        def process(self: Any, outputs: list[Output]) -> None:
            for output in outputs:
                is_stopped = output.finish_reason == "stop"
                self.stopped_by = self.detokenizer.update(output.new_token_ids, is_stopped) or output.stop_reason

        return lambda outputs: cutting(process)(self, outputs)


def tokens_of(text: str, choices: list[int]) -> list[int]:
    """One way to cut a text into tokens."""
    rest, tokens = text.encode(), list[int]()
    while rest:
        fitting = [token for token in TEXT_TOKENS if rest.startswith(BYTES.token(token))]
        tokens.append(fitting[choices[len(tokens)] % len(fitting)])
        rest = rest[len(BYTES.token(tokens[-1])) :]
    return [*tokens, EOS]


@given(
    st.sampled_from(OPTIONS),
    st.sampled_from(MATCHER_TYPES),
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
    CUT_STOPS,
    st.booleans(),
    st.integers(1, 4),
)
def test_a_text_ends_where_what_is_left_is_complete(
    option: str, matcher: MatcherType, choices: list[int], stops: list[str], include_stop: bool, step: int
) -> None:
    """However it is cut into tokens, and however many of them a step has."""
    params, said, client = asked(stops, include_stop=include_stop), list[int](), Client(asked(stops))
    grammar = started(
        trie_grammar(*OPTIONS, matcher=matcher), params, max_drafts=4, refused=lambda *_: None, said=said
    ).unwrap()
    looking = stopping(params, SPELLING, said)
    assert looking is not None
    tokens = tokens_of(option, choices)
    for start in range(0, len(tokens), step):
        output = Output(tokens[start : start + step], "stop" if start + step >= len(tokens) else None)
        said += output.new_token_ids
        assert grammar.accept_tokens("id", output.new_token_ids)
        if cut := looking.look(grammar.constraint):
            output.finish_reason, output.stop_reason = "stop", cut.as_stop_reason()
        client.process_outputs([output])
        if output.finish_reason:
            break
    data = option.encode()
    places = frozenset(size for size in range(len(data) + 1) if data[:size] in {each.encode() for each in OPTIONS})
    end = expected(data, stops, places, include_stop=include_stop)
    assert client.detokenizer.output_text == data[: end.size].decode()
    assert client.stopped_by == end.stop
    assert client.detokenizer.token_ids == tokens[: len(client.detokenizer.token_ids)]
    assert (EOS in client.detokenizer.token_ids) is (end.stop is None)


def test_before_the_least_number_of_tokens_nothing_stops_it() -> None:
    for min_tokens, is_cut in ((1, True), (2, False)):
        params, said = asked(["c"], min_tokens=min_tokens), list[int]()
        grammar = started(trie_grammar("ab", "abcd"), params, max_drafts=0, refused=lambda *_: None, said=said).unwrap()
        looking = Stopping(params, SPELLING, said)
        for tokens in ([257], [ord("c")]):
            said += tokens
            grammar.accept_tokens("id", tokens)
        assert (looking.look(grammar.constraint) is not None) is is_cut


def test_a_matcher_that_fails_when_a_place_is_tried_ends_its_sequence() -> None:
    class CannotFork(TrieMatcher):
        def fork(self) -> "CannotFork":
            raise RuntimeError("no copy")

    told = dict[str, GrammarError]()
    params = asked(["b"])
    grammar = started(
        trie_grammar("a", "ab", "abc", matcher=CannotFork), params, max_drafts=0, refused=told.__setitem__, said=[257]
    ).unwrap()
    assert grammar.accept_tokens("id", [257])
    assert Stopping(params, SPELLING, [257]).look(grammar.constraint) is None
    assert not grammar.accept_tokens("id", [ord("c")])
    assert told["id"].kind is ErrorKind.BACKEND_FAILURE


@given(st.builds(Cut, st.text(), st.integers(0), st.integers(0)))
def test_a_cut_comes_back_as_it_was_and_is_no_cause(cut: Cut) -> None:
    assert cut_of(cut.as_stop_reason()) == cut
    assert cause(cut.as_stop_reason()) is None


@pytest.mark.parametrize("reason", [None, 2, "a stop string", "structout:{}"])
def test_other_stop_reasons_are_no_cuts(reason: object) -> None:
    assert cut_of(reason) is None


@pytest.mark.parametrize(("stops", "has_grammar"), [([], True), (["a"], False), ([], False)])
def test_without_a_grammar_or_stop_strings_vllm_looks_as_ever(stops: list[str], has_grammar: bool) -> None:
    params = Params(stop=stops, extra_args={"structout_stops": True, "another": 1})
    assert handed_over(params, has_grammar=has_grammar) == Ok(None)
    assert params.extra_args == {"another": 1}
    assert stopping(params, SPELLING, []) is None
    client = Client(params)
    client.process_outputs([Output([ord("a")])])
    assert client.stopped_by == "looked for"


def test_an_output_of_a_request_that_has_gone_is_passed_on() -> None:
    client = Client(asked(["a"]))
    client.request_states = {}
    client.process_outputs([Output([ord("a")], "stop", Cut("a", 1, 0).as_stop_reason())])
    assert client.stopped_by is not None


def test_a_stop_string_that_no_text_can_have_is_refused() -> None:
    match handed_over(Params(stop=["a", "\ud800"]), has_grammar=True):
        case Err(error):
            assert (error.kind, error.keyword) == (ErrorKind.INVALID_SPEC, "stop")
        case Ok():
            pytest.fail("taken")


def test_parameters_that_were_used_with_a_grammar_can_be_used_without() -> None:
    """Through the door, as vLLM's users do: one object for many requests."""
    params = asked(["a"])
    assert stopping(params, SPELLING, []) is not None
    params.structured_outputs = None
    Admission(1.0).admit_now("again", params)
    assert stopping(params, SPELLING, []) is None
