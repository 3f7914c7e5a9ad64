"""What crosses between the engine and its workers, and that nothing else gets through."""

import json
from typing import Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout import Err, ErrorKind, GrammarError, Ok, Vocabulary
from structout.compile.sandbox import Tried
from structout.compile.sandbox.messages import Answer, Trying, read_answer
from structout.compile.sandbox.vocabulary import pack, unpack
from structout.fuzz.vocabulary import byte_vocabulary, small_vocabulary


@pytest.mark.parametrize("vocabulary", [small_vocabulary(), byte_vocabulary()], ids=["small", "bytes"])
def test_a_vocabulary_crosses_as_data(vocabulary: Vocabulary) -> None:
    assert unpack(pack(vocabulary)).fingerprint == vocabulary.fingerprint


BACKENDS: Final = ("a", "b")
TRIED: Final = st.builds(
    Tried, st.sampled_from(BACKENDS), st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0), st.integers(0)
)
ERRORS: Final = st.builds(
    GrammarError, kind=st.sampled_from(ErrorKind), message=st.text(), pointer=st.none() | st.text(), detail=st.text()
)
ANSWERS: Final = st.builds(Answer, TRIED.map(Ok) | ERRORS.map(Err), st.booleans())
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def json_line(value: object) -> bytes:
    return json.dumps(value).encode()


@given(ANSWERS, st.integers(0))
def test_an_answer_survives_the_way_through_json(answer: Answer, job: int) -> None:
    line = json_line({"job": job, **answer.to_json()})
    assert read_answer(line, job, BACKENDS) == answer
    assert read_answer(line, job + 1, BACKENDS) is None


@given(ANSWERS, st.data())
def test_an_answer_with_one_field_of_another_type_is_no_answer(answer: Answer, data: st.DataObject) -> None:
    fields = answer.to_json()
    inner = next(value for value in fields.values() if isinstance(value, dict))
    name = data.draw(st.sampled_from(sorted(inner)))
    kinds = (int, float) if name.endswith("_s") else (type(inner[name]),)
    inner[name] = data.draw(JSON.filter(lambda value: value is not None and not isinstance(value, kinds)))
    assert read_answer(json_line({"job": 0, **fields}), 0, BACKENDS) is None


@given(st.binary() | JSON.map(json_line))
def test_reading_an_answer_never_raises(line: bytes) -> None:
    assert read_answer(line, 0, BACKENDS) is None


@pytest.mark.parametrize(
    "data",
    [
        {"job": 0, "trying": "c"},
        {"job": 0, "trying": ["a"]},
        {"job": False, "trying": "a"},
        {"job": 0, "tried": attrs.asdict(Tried("c", 0.0, 0.0, 0, 0)), "is_last": False},
        {
            "job": 0,
            "error": {"kind": "unsupported", "fault": "caller", "message": "", "candidates": [1]},
            "is_last": False,
        },
        {"job": 0, "error": {"kind": "unsupported", "fault": "service", "message": ""}, "is_last": False},
    ],
)
def test_what_no_worker_may_say_is_no_answer(data: object) -> None:
    assert read_answer(json_line(data), 0, BACKENDS) is None


def test_deep_nesting_is_no_answer() -> None:
    assert read_answer(b"[" * 100_000, 0, BACKENDS) is None


def test_a_worker_says_which_backend_it_turns_to() -> None:
    assert read_answer(b'{"job": 3, "trying": "b"}', 3, BACKENDS) == Trying("b")
