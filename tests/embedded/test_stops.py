"""Stop strings: the text ends where a plain search in all the bytes says, and nothing is delivered too early."""

import codecs
import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.embedded.cuts import Cuts, Spelling
from engine_adapter.embedded.detokenize import Detokenizer
from engine_adapter.embedded.engine import Engine, run
from engine_adapter.embedded.local import open_local
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Finished, FinishReason, Outcome
from engine_adapter.sampling import SamplingParams
from structout import BackendInfo, Choice, ErrorKind, JsonSchema
from structout.compile import CompileService
from structout.discovery import discover
from structout.vocabulary import TokenKind
from tests.fakes import BYTES, EOS, MATCHER_TYPES, MatcherType, TrieMatcher, TriePlugin, trie_grammar, trie_info
from tests.scripted import ScriptedRunner

# Few characters, so that stop strings are in texts, in each other and in themselves; two of them of several bytes.
TEXTS = st.text("aé€b", max_size=12)
STOPS = st.lists(st.text("aé€b", min_size=1, max_size=4), max_size=4)
CUTS = st.lists(st.integers(0, 30)).map(sorted)
PIECES = st.builds(
    lambda text, cuts: [text.encode()[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)],
    TEXTS,
    CUTS,
) | st.lists(st.sampled_from([b"a", b"b", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"\xff", b""]))


@attrs.frozen
class Expected:
    """Where a text ends: how many of its bytes are left, and for which stop string."""

    size: int
    stop: str | None


def expected(data: bytes, stops: list[str], places: frozenset[int], *, include_stop: bool) -> Expected:
    """By trying every end, and at each every stop string, the longest first."""
    for end in range(len(data) + 1):
        for stop in sorted(stops, key=lambda stop: -len(stop.encode())):
            start = end - len(stop.encode())
            cut = end if include_stop else start
            if start >= 0 and data[start:end] == stop.encode() and cut in places:
                return Expected(cut, stop)
    return Expected(len(data), None)


def undecided(data: bytes, stops: list[str]) -> int:
    """How many of the last bytes are the beginning of a stop string, and not all of it."""
    beginnings = {stop.encode()[:length] for stop in stops for length in range(len(stop.encode()))}
    return max((size for size in range(len(data) + 1) if data[len(data) - size :] in beginnings), default=0)


@given(PIECES, STOPS, st.booleans(), st.frozensets(st.integers(0, 30)) | st.just(frozenset(range(200))))
def test_a_text_ends_where_a_search_in_all_of_it_says(
    pieces: list[bytes], stops: list[str], include_stop: bool, places: frozenset[int]
) -> None:
    detokenizer = Detokenizer(pieces.__getitem__, stops, include_stop=include_stop)
    text = ""
    for token in range(len(pieces)):
        text += detokenizer.push(token, places.__contains__)
        if detokenizer.stop_string is not None:
            break
    text += detokenizer.finish()
    data = b"".join(pieces)
    end = expected(data, stops, places, include_stop=include_stop)
    assert detokenizer.stop_string == end.stop
    assert text == data[: end.size].decode("utf-8", errors="replace")


@given(PIECES, STOPS)
def test_what_may_become_a_stop_string_is_held_back_and_nothing_else(pieces: list[bytes], stops: list[str]) -> None:
    detokenizer = Detokenizer(pieces.__getitem__, stops)
    data, text = b"", ""
    for token, piece in enumerate(pieces):
        data += piece
        text += detokenizer.push(token, lambda _cut: False)
        decided = data[: len(data) - undecided(data, stops)]
        assert text == codecs.getincrementaldecoder("utf-8")(errors="replace").decode(decided)


OPTIONS = ("", "ab", "abab", "abcd", "cdab", "éab", "aéab", "ba")
CUT_STOPS = st.lists(st.sampled_from(["a", "b", "ab", "abc", "cd", "é", "éa", "bab"]), min_size=1, max_size=3)
TEXT_TOKENS = BYTES.ids(TokenKind.TEXT)


@given(st.sampled_from(OPTIONS), st.sampled_from(MATCHER_TYPES), st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_a_place_counts_where_the_bytes_before_it_are_a_text_of_the_grammar(
    option: str, matcher: MatcherType, choices: list[int]
) -> None:
    """However the text is cut into tokens: a place between them, or inside one, is worth what the grammar says."""
    constraint = trie_grammar(*OPTIONS, matcher=matcher).start(max_rollback=16).unwrap()
    cuts, tokens, data = Cuts(Spelling(BYTES)), list[int](), b""
    rest = option.encode()
    while rest:
        fitting = [token for token in TEXT_TOKENS if rest.startswith(BYTES.token(token))]
        token = fitting[choices[len(tokens)] % len(fitting)]
        cuts.before(token, is_complete=constraint.is_accepting)
        constraint.accept(token)
        tokens.append(token)
        data, rest = data + BYTES.token(token), rest[len(BYTES.token(token)) :]
        for cut in range(len(data) + 1):
            allowed = cuts.allow(cut, constraint, tokens)
            assert allowed == (data[:cut] in {each.encode() for each in OPTIONS}), data[:cut]
    assert constraint.tokens == tuple(tokens), "trying a place out changes nothing"


def service(*infos: BackendInfo) -> CompileService:
    return CompileService(discover(plugins={"trie": TriePlugin(*infos)}, entry_points=[]), BYTES)


SERVICE = service()


def outcomes(request: Request, compiler: CompileService = SERVICE) -> list[Outcome]:
    engine = Engine(ScriptedRunner(), compiler)
    found = [event.outcome for event in run(engine, [request])]
    engine.close()
    return found


def finished(request: Request) -> Finished:
    """The end of a request, whose deltas are checked to add up to it."""
    *deltas, end = outcomes(request)
    assert isinstance(end, Finished), end
    assert "".join(each.text for each in deltas if isinstance(each, Delta)) == end.text
    assert sum((each.token_ids for each in deltas if isinstance(each, Delta)), ()) == end.token_ids
    return end


@given(st.integers(0, 2**31), CUT_STOPS, st.booleans())
def test_the_engine_ends_a_constrained_text_where_what_is_left_is_complete(
    seed: int, stops: list[str], include_stop: bool
) -> None:
    request = Request(id="a", prompt=(1,), spec=Choice(OPTIONS), sampling=SamplingParams(seed=seed))
    whole = finished(request)
    data = whole.text.encode()
    places = frozenset(size for size in range(len(data) + 1) if data[:size] in {each.encode() for each in OPTIONS})
    end = expected(data, stops, places, include_stop=include_stop)
    cut = finished(attrs.evolve(request, stop=tuple(stops), include_stop=include_stop))
    assert (cut.text, cut.stop_string, cut.reason) == (data[: end.size].decode(), end.stop, FinishReason.STOP)
    assert (cut.stop_token_id is None) == (end.stop is not None)
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    assert cut.usage.completion_tokens == len(cut.token_ids) + (end.stop is None)


FREE = Request(id="a", prompt=(7,), max_tokens=12, stop_token_ids=(), sampling=SamplingParams(seed=3))


@pytest.mark.parametrize("include_stop", [True, False])
def test_a_stop_string_over_several_tokens_ends_free_text(include_stop: bool) -> None:
    whole = finished(FREE)
    assert (whole.reason, whole.stop_string) == (FinishReason.LENGTH, None)
    stop = whole.text[4:8]
    end = finished(attrs.evolve(FREE, stop=("nowhere in it", stop), include_stop=include_stop))
    place = whole.text.index(stop)
    assert end.text == whole.text[: place + len(stop) * include_stop]
    assert (end.reason, end.stop_string, end.stop_token_id) == (FinishReason.STOP, stop, None)
    assert len(end.token_ids) < len(whole.token_ids)


def test_the_beginning_of_a_stop_string_comes_out_when_there_is_no_room_for_the_rest() -> None:
    whole = finished(FREE)
    assert finished(attrs.evolve(FREE, stop=(whole.text[-3:] + "and more",))) == whole


def test_a_plugin_that_fails_while_a_place_is_tried_out_ends_the_request() -> None:
    class CannotFork(TrieMatcher):
        def fork(self) -> "CannotFork":
            raise RuntimeError("no copy")

    compiler = service(trie_info(matcher=CannotFork))
    request = Request(id="a", prompt=(1,), spec=Choice(("ab",)), stop=("b",))
    ends = [outcomes(attrs.evolve(request, sampling=SamplingParams(seed=seed)), compiler)[-1] for seed in range(8)]
    failed = [end for end in ends if isinstance(end, Failed)]
    assert failed, "one of them has the token ab, inside of which the text is asked about"
    assert {(end.error.kind, end.error.backend) for end in failed} == {(ErrorKind.BACKEND_FAILURE, "trie")}


def test_a_byte_without_a_token_of_its_own_is_not_spelled() -> None:
    assert Spelling(BYTES).spell(b"ab") == [ord("a"), ord("b")]
    assert Spelling(BYTES).spell(b"") == []
    few = type(BYTES).from_tokens([b"a", b"ab", b""], eos_token_ids=[2], control=[(2, "</s>")])
    assert Spelling(few).spell(b"ab") is None


def test_a_byte_that_ends_the_text_is_no_text() -> None:
    """The token of one byte may be a stop token of the request: then the place is not taken for complete."""
    constraint = trie_grammar("a", "ab").start(stop_token_ids=(ord("a"), EOS), max_rollback=4).unwrap()
    cuts = Cuts(Spelling(BYTES))
    cuts.before(257, is_complete=constraint.is_accepting)
    constraint.accept(257)
    assert not cuts.allow(1, constraint, [257])


def test_a_risky_grammar_is_not_asked_about_places_inside_tokens() -> None:
    asked: list[TrieMatcher] = []

    class Asked(TrieMatcher):
        def fork(self) -> TrieMatcher:
            asked.append(self)
            raise RuntimeError("no copy")

    grammar = attrs.evolve(trie_grammar("", "a", "ab", "abb", matcher=Asked), is_risky=True)
    constraint = grammar.start(max_rollback=4).unwrap()
    cuts = Cuts(Spelling(BYTES))
    for token in (257, ord("b")):
        cuts.before(token, is_complete=constraint.is_accepting)
        constraint.accept(token)
    assert [cuts.allow(cut, constraint, [257, ord("b")]) for cut in range(4)] == [True, False, True, False]
    assert asked == []


@pytest.mark.long
@pytest.mark.model
def test_a_real_model_and_a_real_grammar() -> None:
    """The text that the model says anyway ends at the stop string; inside of JSON the string is text like any other."""
    local = open_local("smollm2", max_rows=4, max_len=256)
    common: dict[str, Any] = {
        "prompt": local.encode_turn("Count from one to ten, in words."),
        "sampling": SamplingParams(temperature=0.0),
        "max_tokens": 48,
    }
    properties = {"word": {"type": "string", "maxLength": 12}}
    closed = {"type": "object", "properties": properties, "required": ["word"], "additionalProperties": False}
    schema = JsonSchema(json.dumps(closed))
    first = {event.request_id: event.outcome for event in run(local.engine, [Request(id="free", **common)])}
    free = first["free"]
    assert isinstance(free, Finished)
    stop = free.text[9:14]
    requests = [
        Request(id="cut", stop=(stop,), **common),
        Request(id="json", spec=schema, **common),
        Request(id="json stopped", spec=schema, stop=('"', "}"), include_stop=True, **common),
    ]
    ends = {event.request_id: event.outcome for event in run(local.engine, requests)}
    local.close()
    cut, whole, stopped = ends["cut"], ends["json"], ends["json stopped"]
    assert isinstance(cut, Finished)
    assert (cut.text, cut.stop_string) == (free.text[: free.text.index(stop)], stop)
    assert isinstance(whole, Finished)
    assert isinstance(stopped, Finished)
    assert (stopped.text, stopped.stop_string) == (whole.text.rstrip(), "}")
