"""structout's compile service in the place of vLLM's pool of threads and of its backend."""

import logging
from collections.abc import Callable
from typing import Any

from engine_adapter.outcome import internal_error
from engine_adapter.vllm.asking import Asked, asked
from engine_adapter.vllm.settings import KEY, Settings
from engine_adapter.vllm.watching import Watching
from structout.compile import CompileService, Pending
from structout.compile.sandbox import Sandbox, Tried
from structout.discovery import Registry
from structout.errors import ErrorKind, Fault, GrammarError
from structout.grammar import Grammar
from structout.observability.logs import RequestLogger
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

_NO_CONSTRAINT = GrammarError(
    kind=ErrorKind.ENGINE_FAILURE, message="the request has no constraint, and was to be compiled all the same"
)


class Grammars:
    """What vLLM's ``StructuredOutputManager`` calls on its executor and on its backend.

    `submit` is called on the thread that reads vLLM's input, so that neither reading a spec nor compiling it is in the
    way of a step. When it is made, all backends that requests may get are loaded, in the sandbox too: the first request
    of a server that says it is ready does not wait for that.

    Args:
        registry: what is installed.
        vocabulary: the model's.
        settings: the server's.
        compact: whether the server wants JSON without white space.
        watching: what is told of compiles and waits, and ends with it.

    Raises:
        ValueError: the backend that the settings name is not there.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        settings: Settings,
        *,
        compact: bool = False,
        watching: Watching | None = None,
    ) -> None:
        self.watching = watching or Watching(Settings())
        self._settings = settings
        self._compact = compact
        self.vocabulary = vocabulary
        workers, usual = settings.sandbox_workers, usual_backends(registry, settings.backend)
        self._sandbox = Sandbox(registry, vocabulary, workers=workers, warm=usual) if workers else None
        self.service = CompileService(
            registry,
            vocabulary,
            sandbox=self._sandbox,
            isolate=refuse_slow(settings.slowest_fill_s),
            deadline_s=settings.deadline_s,
            observer=self.watching.observer,
        )
        self.watching.watch(service=self.service, sandbox=self._sandbox)
        for backend in usual:
            self.service.backend(backend)  # what does not start says so to whoever asks for it
        if self._sandbox is not None and not self._sandbox.wait_until_full():
            logger.warning("the processes that try risky grammars are not ready; requests for such grammars will wait")

    def submit(self, create: object, request: Any) -> Pending[Grammar]:
        """As vLLM calls its executor: the pending grammar of a request. Never raises."""
        del create  # how vLLM itself would compile it
        try:
            return self._submit(asked(request.sampling_params, compact=self._compact), request)
        except Exception as exc:
            RequestLogger(logger, request.request_id).exception("the request cannot be read")
            return _settled(internal_error(exc))

    def _submit(self, found: Result[Asked | None, GrammarError], request: Any) -> Pending[Grammar]:
        match found:
            case Ok(Asked(spec, backend)):
                tenant = getattr(request, "session_id", None) or ""
                return self.service.submit(spec, backend=backend or self._settings.backend, tenant=tenant)
            case Ok():
                return _settled(_NO_CONSTRAINT)
            case Err(error):
                return _settled(error)

    def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
        """A torch.Tensor int32 [max_num_seqs, ceil(vocabulary / 32)] that lets everything through."""
        import torch

        return torch.full((max_num_seqs, self.vocabulary.bitmask_width), -1, dtype=torch.int32)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As vLLM ends its executor: whoever still waits is told, and processes end."""
        del wait, cancel_futures
        self.service.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self.watching.close()

    def destroy(self) -> None:
        """As vLLM ends its backend, after its executor: nothing is left to do."""


def usual_backends(registry: Registry, named: str | None) -> list[str]:
    """Those that a request may get without naming one: by itself, or because the operator has named it.

    Raises:
        ValueError: what the operator has named is not there.
    """
    if named is not None and isinstance(found := registry.find(named), Err):
        detail = f": {found.error.detail}" if found.error.detail else ""
        raise ValueError(f"{KEY}.backend: {found.error}{detail}")
    return [
        backend
        for backend, registered in registry.backends.items()
        if backend == named or not registered.info.by_name_only
    ]


def refuse_slow(
    slowest_fill_s: float,
) -> Callable[[GrammarSpec, Tried, Stop], Result[Grammar, GrammarError] | None]:
    """Refuses what was seen to take long for its bitmasks, in the place where other engines give it a process."""

    def refusal(spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError] | None:
        del stop
        if tried.slowest_fill_s <= slowest_fill_s:
            return None
        took, most = f"{tried.slowest_fill_s * 1000:.0f} ms", f"{slowest_fill_s * 1000:.0f} ms"
        message = f"this {spec.kind} takes {took} for a bitmask, and here a step waits for {most} at most"
        return Err(
            GrammarError(
                kind=ErrorKind.TIMED_OUT,
                fault=Fault.CALLER,
                message=message,
                backend=tried.backend,
                hint="make it simpler, or name another backend",
            )
        )

    return refusal


def _settled(error: GrammarError) -> Pending[Grammar]:
    pending = Pending[Grammar]()
    pending.settle(Err(error))
    return pending
