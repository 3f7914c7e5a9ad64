"""Where structout's records go in vLLM's processes, of which vLLM configures its own logger alone."""

import logging
from collections.abc import Sequence

from structout.observability.logs import LOGGERS, log_as_json


def show_records(names: Sequence[str] = LOGGERS) -> None:
    """Has what nobody else takes written to standard error, as JSON: Python would leave out what is below WARNING, and
    of the rest the request's id and the error's detail."""
    log_as_json(*(name for name in names if not logging.getLogger(name).hasHandlers()))
