"""Walks through real grammars: what is listed is what is accepted, and back is back."""

import functools

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.serve.http.page.tokens import TokenTable
from engine_adapter.serve.http.page.walk import MAX_TOKENS, Walk
from structout import Choice, Err, ErrorKind, Ok, Regex
from structout.discovery import discover
from structout.grammar import Grammar
from structout.spec import GrammarSpec
from tests.fakes import BYTES, EOS
from tests.laws.specs import COMPLETE, SPECS
from tests.serve.page.support import BACKENDS, real_service

TABLE = TokenTable(BYTES)
CASES = [
    (backend, name)
    for backend in BACKENDS
    for name, spec in SPECS.items()
    if spec.kind in discover().backends[backend].info.spec_kinds
]


@functools.cache
def grammar(backend: str, spec: GrammarSpec) -> Grammar:
    return real_service().compile(spec, backend=backend).unwrap()


def walk(backend: str = "xgrammar", spec: GrammarSpec = SPECS["choice"]) -> Walk:
    return Walk.begin(grammar(backend, spec), TABLE).unwrap()


@given(case=st.sampled_from(CASES), data=st.data())
def test_what_is_listed_is_what_is_accepted_and_back_undoes(case: tuple[str, str], data: st.DataObject) -> None:
    backend, name = case
    way = walk(backend, SPECS[name])
    before: list[tuple[tuple[int, ...], list[int]]] = []
    for _ in range(data.draw(st.integers(1, 6))):
        allowed = way.allowed().unwrap().tolist()
        refused = data.draw(st.sampled_from(sorted(set(range(BYTES.padded_size)).difference(allowed))))
        assert isinstance(way.take(refused), Err)
        assert way.allowed().unwrap().tolist() == allowed, "a refused token changes nothing"
        if not allowed:
            break
        before.append((way.tokens, allowed))
        assert way.take(data.draw(st.sampled_from(allowed))) == Ok(None)
    while before:
        assert way.back() == Ok(None)
        tokens, allowed = before.pop()
        assert (way.tokens, way.allowed().unwrap().tolist()) == (tokens, allowed)
    assert not way.can_go_back


@pytest.mark.parametrize(("backend", "name"), CASES)
def test_every_listed_token_is_accepted_and_no_other(backend: str, name: str) -> None:
    way = walk(backend, SPECS[name])
    listed = set(way.allowed().unwrap().tolist())
    accepted = set()
    for token in range(BYTES.padded_size):
        if isinstance(way.take(token), Ok):
            accepted.add(token)
            way.back().unwrap()
    assert listed == accepted


@given(case=st.sampled_from(CASES), data=st.data())
def test_a_text_goes_in_whole_and_what_follows_it_in_one_step_back(case: tuple[str, str], data: st.DataObject) -> None:
    backend, name = case
    text = COMPLETE[name]
    cut = data.draw(st.integers(0, len(text)))
    way = walk(backend, SPECS[name])
    first, second = text[:cut], text[cut:]
    assert way.take_text(first) == Ok(len(first))
    assert way.take_text(second) == Ok(len(second))
    assert (way.text.decode(), way.is_complete) == (text, True)
    if second:
        way.back().unwrap()
        assert way.text.decode() == first


@given(options=st.lists(st.text("abcdé", min_size=1, max_size=6), min_size=1, max_size=4), text=st.text("abcdéü"))
def test_as_much_of_a_text_is_taken_as_some_option_begins_with(options: list[str], text: str) -> None:
    way = walk("llguidance", Choice(tuple(options)))
    fits = max(length for length in range(len(text) + 1) if any(option.startswith(text[:length]) for option in options))
    assert way.take_text(text) == Ok(fits)
    assert way.text.decode() == text[:fits]
    assert way.can_go_back == (fits > 0)
    assert way.is_complete == (text[:fits] in options)


def test_the_longest_tokens_are_taken() -> None:
    way = walk(spec=Choice(("abcdé",)))
    way.take_text("abcdé").unwrap()
    assert [BYTES.token(token) for token in way.tokens] == [b"ab", b"cd", "é".encode()]


def test_behind_the_end_there_is_only_back() -> None:
    way = walk()
    way.take_text("no").unwrap()
    assert way.take(EOS) == Ok(None)
    assert (way.is_ended, way.allowed().unwrap().tolist()) == (True, [])
    for refused in (way.take(ord("n")), way.take_text("n")):
        assert isinstance(refused, Err)
        assert refused.error.kind is ErrorKind.INVALID_SPEC
    assert way.back() == Ok(None)
    assert (way.is_ended, way.is_complete) == (False, True)


def test_a_walk_has_a_bound_and_there_is_a_way_back_from_it() -> None:
    way = walk(spec=Regex("[a-z ]*"))
    assert way.take_text("a" * (MAX_TOKENS + 5)) == Ok(MAX_TOKENS)
    refused = way.take(ord("a"))
    assert isinstance(refused, Err)
    assert refused.error.kind is ErrorKind.TOO_COMPLEX
    assert way.back() == Ok(None)
    assert way.tokens == ()
