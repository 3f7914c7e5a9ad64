"""What crosses between the engine and its workers, and that nothing else gets through."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout import Err, ErrorKind, GrammarError, Ok, Vocabulary
from structout.compile.risk import Measure
from structout.compile.sandbox import Tried
from structout.compile.sandbox.messages import (
    Answer,
    Measured,
    Through,
    Trying,
    read_answer,
    read_measured,
    read_tried,
)
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
MEASURED: Final = st.dictionaries(st.sampled_from(Measure), st.integers(0), min_size=1).map(
    lambda counts: Measured(defaultdict(int, counts))
)
Read = Callable[[Any, Any], Any]
READ_TRIED: Final[Read] = lambda said, left: read_tried(BACKENDS, said)  # noqa: E731 (a value of this type)
READERS: Final[dict[type, Read]] = {Tried: READ_TRIED, Measured: lambda said, left: read_measured(said)}
ANSWERS: Final = st.builds(Answer[Any], TRIED.map(Ok) | MEASURED.map(Ok) | ERRORS.map(Err), st.booleans())
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def reader(answer: Answer[Any]) -> Read:
    return READERS[type(answer.result.value)] if isinstance(answer.result, Ok) else READ_TRIED


def json_line(value: object) -> bytes:
    return json.dumps(value).encode()


@given(ANSWERS, st.integers(0))
def test_an_answer_survives_the_way_through_json(answer: Answer[Any], job: int) -> None:
    line = json_line({"job": job, **answer.to_json()})
    assert read_answer(line, job, BACKENDS, reader(answer)) == answer
    assert read_answer(line, job + 1, BACKENDS, reader(answer)) is None


@given(ANSWERS, st.data())
def test_an_answer_with_one_field_of_another_type_is_no_answer(answer: Answer[Any], data: st.DataObject) -> None:
    fields = answer.to_json()
    inner = next(value for value in fields.values() if isinstance(value, dict))
    inner = inner.get("measures", inner)
    name = data.draw(st.sampled_from(sorted(inner)))
    kinds = (int, float) if name.endswith("_s") else (type(inner[name]),)
    inner[name] = data.draw(JSON.filter(lambda value: value is not None and not isinstance(value, kinds)))
    assert read_answer(json_line({"job": 0, **fields}), 0, BACKENDS, reader(answer)) is None


@given(st.binary() | JSON.map(json_line))
def test_reading_an_answer_never_raises(line: bytes) -> None:
    assert all(read_answer(line, 0, BACKENDS, read) is None for read in READERS.values())


@pytest.mark.parametrize(
    "data",
    [
        {"job": 0, "trying": "c"},
        {"job": 0, "trying": ["a"]},
        {"job": False, "trying": "a"},
        {"job": 0, "value": attrs.asdict(Tried("c", 0.0, 0.0, 0, 0)), "is_last": False},
        {"job": 0, "value": attrs.asdict(Tried("a", 0.0, 0.0, 0, 0)) | {"data": "x"}, "is_last": False},
        {"job": 0, "through": attrs.asdict(Tried("c", 0.0, 0.0, 0, 0))},
        {"job": 0, "value": {"measures": {"schema.depth": -1}}, "is_last": False},
        {"job": 0, "value": {"measures": {"schema.weight": 1}}, "is_last": False},
        {"job": 0, "value": {"measures": [1]}, "is_last": False},
        {
            "job": 0,
            "error": {"kind": "unsupported", "fault": "caller", "message": "", "candidates": [1]},
            "is_last": False,
        },
        {"job": 0, "error": {"kind": "unsupported", "fault": "service", "message": ""}, "is_last": False},
    ],
)
def test_what_no_worker_may_say_is_no_answer(data: object) -> None:
    assert all(read_answer(json_line(data), 0, BACKENDS, read) is None for read in READERS.values())


def test_deep_nesting_is_no_answer() -> None:
    assert read_answer(b"[" * 100_000, 0, BACKENDS, READ_TRIED) is None


@given(TRIED)
def test_a_worker_says_what_came_through_before_it_hands_it_over(tried: Tried) -> None:
    line = json_line({"job": 3, "through": attrs.asdict(tried)})
    assert read_answer(line, 3, BACKENDS, READ_TRIED) == Through(tried)


def test_a_worker_says_which_backend_it_turns_to() -> None:
    assert read_answer(b'{"job": 3, "trying": "b"}', 3, BACKENDS, READ_TRIED) == Trying("b")
