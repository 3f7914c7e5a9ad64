"""What nobody else takes of structout's records is written all the same."""

import json
import logging

import pytest

from engine_adapter.vllm.logs import show_records
from structout import ErrorKind, GrammarError
from structout.observability.logs import RequestLogger

ERROR = GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="broke", detail="its inside")


def unconfigured(name: str) -> logging.Logger:
    """A logger that nobody has configured, nor any above it; made in the test, or pytest would configure it."""
    logger = logging.getLogger(name)
    logger.propagate = False
    return logger


def test_it_is_written_once_with_what_clients_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    logger = unconfigured("structout_told_once")
    for _ in range(2):
        show_records([logger.name])
    RequestLogger(logger, "r-1").failed(ERROR)
    (line,) = capsys.readouterr().err.splitlines()
    written = json.loads(line)
    assert (written["request_id"], written["error"]["detail"]) == ("r-1", "its inside")


def test_what_somebody_takes_is_left_to_them() -> None:
    logger, theirs = unconfigured("structout_taken"), logging.NullHandler()
    logger.addHandler(theirs)
    show_records([logger.name])
    assert logger.handlers == [theirs]
    assert logger.level == logging.NOTSET
