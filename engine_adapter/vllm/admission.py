"""What is asked of a request before vLLM takes it: can its constraint be read at all?

Whether a backend enforces it, the engine core finds out. Reading is done on threads of its own: the event loop goes on
answering others, however long a schema is.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from engine_adapter.outcome import internal_error
from engine_adapter.vllm import causes
from engine_adapter.vllm.asking import Asked, asked, complete
from engine_adapter.vllm.stopping import handed_over
from structout.errors import ErrorKind, Fault, GrammarError
from structout.observability.logs import RequestLogger
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS: Final = 2


class Admission:
    """Of one server's requests.

    Args:
        deadline_s: how long reading one may take, in seconds. Who waits for longer gets TIMED_OUT.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="structout-admission")

    async def admit(self, request_id: str, params: Any) -> None:
        """Reads what vLLM's ``SamplingParams`` ask for, beside the event loop. Raises what `causes.exception` makes."""
        complete(params)
        is_constrained = getattr(params, "structured_outputs", None) is not None
        _admitted(request_id, params, await self.read(functools.partial(asked, params)) if is_constrained else Ok(None))

    def admit_now(self, request_id: str, params: Any) -> None:
        """`admit` for a process without an event loop."""
        complete(params)
        is_constrained = getattr(params, "structured_outputs", None) is not None
        _admitted(request_id, params, asked(params) if is_constrained else Ok(None))

    async def read(self, call: Callable[[], Result[T, GrammarError]]) -> Result[T, GrammarError]:
        """What a call returns that is made on a thread beside the event loop; TIMED_OUT if that takes too long."""
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(loop.run_in_executor(self._threads, call), self._deadline_s)
        except TimeoutError:
            message = f"the request was not read within {self._deadline_s:g} s"
            hint = "send it again, or make it shorter"
            kind, fault = ErrorKind.TIMED_OUT, Fault.SERVICE
            return Err(GrammarError(kind=kind, fault=fault, message=message, hint=hint))
        except Exception as exc:
            logger.exception("a request cannot be read")
            return Err(internal_error(exc))


def _admitted(request_id: str, params: Any, result: Result[Asked | None, GrammarError]) -> None:
    match result.and_then(lambda read: handed_over(params, has_grammar=read is not None)):
        case Err(error):
            RequestLogger(logger, request_id).failed(error)
            raise causes.exception(error)
