"""Every record about a request has its id, and a line of JSON has all that the record has."""

import json
import logging
from collections.abc import Iterator

import pytest

from structout.observability.logs import JsonFormatter, RequestLogger


class Lines(logging.Handler):
    """Keeps what is logged, as lines of JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


LOGGER = logging.getLogger("structout.tests.logs")


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler = Lines()
    LOGGER.addHandler(handler)
    yield handler.lines
    LOGGER.removeHandler(handler)


def test_a_record_has_the_request_and_its_own_extra(lines: list[str]) -> None:
    RequestLogger(LOGGER, "r-1").warning("late by %d", 3, extra={"step": 7})
    (line,) = map(json.loads, lines)
    assert line.pop("time") > 0
    assert line == {
        "level": "WARNING",
        "logger": "structout.tests.logs",
        "message": "late by 3",
        "request_id": "r-1",
        "step": 7,
    }


def test_an_exception_and_a_value_that_is_no_json_stay_on_one_line(lines: list[str]) -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        RequestLogger(LOGGER, "r-1").exception("failed", extra={"value": {1}})
    (text,) = lines
    assert "\n" not in text
    line = json.loads(text)
    assert line["exception"].endswith("ValueError: first\nsecond")
    assert line["value"] == "{1}"


def test_records_without_a_request_have_no_id(lines: list[str]) -> None:
    LOGGER.warning("started")
    assert "request_id" not in json.loads(lines[0])
