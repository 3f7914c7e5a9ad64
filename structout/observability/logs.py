"""Logs that can be searched by request: records about one request have its id as ``request_id``.

Everything logs below the logger ``structout`` or ``engine_adapter``; any handler and formatter will do. `JsonFormatter`
is one that needs nothing else.
"""

import json
import logging
from collections.abc import MutableMapping
from typing import Any, Final

from structout.errors import Fault, GrammarError

REQUEST_ID: Final = "request_id"
"""Name of the attribute of a record."""

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

LOGGERS: Final = ("structout", "engine_adapter")
"""Names of the loggers that everything of ours is below."""


class RequestLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs about one request; what is given as ``extra`` stays.

    Args:
        logger: where to.
        request_id: whose id the records get.
    """

    def __init__(self, logger: logging.Logger, request_id: str) -> None:
        super().__init__(logger, {REQUEST_ID: request_id})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}

    def failed(self, error: GrammarError) -> None:
        """`log_failure` with the request's id."""
        log_failure(self, error)


def log_failure(logger: logging.Logger | RequestLogger, error: GrammarError) -> None:
    """Tells the operator all of why a request failed; loudly if it is the service's fault."""
    level = logging.ERROR if error.fault is Fault.SERVICE else logging.INFO
    logger.log(level, "%s", error, extra={"error": error.to_json(with_detail=True)})


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (seconds since the epoch), level, logger, message, whatever was given as
    ``extra``, and the traceback as ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        data: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        data |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


def log_as_json(*names: str) -> None:
    """Has the records of these loggers, from INFO on, written to standard error, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name in names:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)
