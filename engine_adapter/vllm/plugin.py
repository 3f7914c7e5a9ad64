"""The entry point ``vllm.general_plugins``: vLLM calls `register` in each of its processes, whether or not structout is
switched on there. It prepares an engine's front end and its workers, which look at their own configuration before
anything changes."""

import functools
import logging
import weakref
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any, Final

from engine_adapter.vllm import causes, names
from engine_adapter.vllm.admission import Admission
from engine_adapter.vllm.applying import applying
from engine_adapter.vllm.door import Door
from engine_adapter.vllm.logs import show_records
from engine_adapter.vllm.settings import is_switched_on, settings_of
from engine_adapter.vllm.stopping import cutting, waiting
from structout.errors import ErrorKind, GrammarError
from structout.observability.logs import log_failure

logger = logging.getLogger(__name__)

_DONE: Final = "_structout"
"""Marks what was wrapped already: vLLM may load its plugins more than once."""

_ADMISSION: Final = "_structout_admission"
"""The attribute by which an engine that is switched on is known: who reads its requests."""

_models: Final = weakref.WeakValueDictionary[int, Any]()
"""Of the engines that are switched on, the model's configuration by its ``id``: what vLLM's check of a request knows of
the engine that it is for."""

_vllm_checks: Final = ContextVar("structout_vllm_checks", default=False)
"""Whether vLLM's own check is being done, for an engine that is not switched on."""

_BY_PATH: Final = {name.path: name for name in (*names.FRONT, *names.HTTP, *names.WORKER)}


def register() -> None:
    """Called by vLLM. Raises nothing: a vLLM that structout does not know has to start without it."""
    try:
        _wrap("AsyncLLM.__init__", functools.partial(_switching_on, switch=switch_server_on))
        _wrap("LLMEngine.__init__", functools.partial(_switching_on, switch=switch_on))
        _wrap("WorkerWrapperBase.init_device", _switching_a_worker_on)
    except Exception:
        logger.exception("structout cannot look at vLLM's engines; --scheduler-cls will not give clients their causes")


def _wrap(path: str, wrapper: Callable[[Any], Any]) -> None:
    """Puts ``wrapper(what is there)`` in the place of one of vLLM's functions, once."""
    name = _BY_PATH[path]
    original = names.find(name)
    if hasattr(original, _DONE):
        return
    wrapped = functools.wraps(original)(wrapper(original))
    setattr(wrapped, _DONE, True)
    names.replace(name, wrapped)


def _switching_on(init: Callable[..., None], switch: Callable[[Admission], None]) -> Callable[..., None]:
    """An engine's ``__init__`` that switches the front end on if its configuration says so."""

    def switching_on(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        if is_switched_on(vllm_config):
            admission = Admission(settings_of(vllm_config).deadline_s)
            switch(admission)
            setattr(self, _ADMISSION, admission)
            _models[id(vllm_config.model_config)] = vllm_config.model_config
            show_records()
        init(self, vllm_config, *args, **kwargs)

    return switching_on


def _switching_a_worker_on(init_device: Callable[..., None]) -> Callable[..., None]:
    """A worker's ``init_device`` that has bitmasks applied by us where they are applied on a CPU."""

    def switching_on(self: Any, *args: Any, **kwargs: Any) -> None:
        if is_switched_on(self.vllm_config):
            names.check(*names.WORKER)
            _wrap("apply_grammar_bitmask", applying)
        init_device(self, *args, **kwargs)

    return switching_on


def switch_on(_: Admission) -> None:
    """Has this process' front end admit constraints of engines that are switched on, and tell clients why they failed.

    Raises:
        Unsupported: this is not a vLLM that structout knows.
    """
    names.check(*names.FRONT)
    _wrap("SamplingParams._validate_structured_outputs", _checking_the_model)
    _wrap("validate_xgrammar_grammar", _leaving_it_to_admission)
    _wrap("AsyncLLM.add_request", _admitting)
    _wrap("AsyncLLM.generate", _saying_why)
    _wrap("LLMEngine.add_request", _admitting_now)
    _wrap("IncrementalDetokenizer.from_new_request", waiting)
    _wrap("OutputProcessor.process_outputs", cutting)


def switch_server_on(admission: Admission) -> None:
    """`switch_on` for a process that may have an HTTP server."""
    switch_on(admission)
    names.check(*names.HTTP)
    _wrap("init_entrypoints_middleware", functools.partial(_with_a_door, admission=admission))


def _checking_the_model(check: Callable[..., None]) -> Callable[..., None]:
    """Of vLLM's own check, which asks its own backends on the event loop, the part that says whether there can be a
    grammar at all; all of it for an engine that is not switched on."""

    def checking(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        if id(model_config) not in _models:
            token = _vllm_checks.set(True)
            try:
                check(self, model_config, structured_outputs_config, tokenizer)
            finally:
                _vllm_checks.reset(token)
            return
        if self.structured_outputs is None or structured_outputs_config is None:
            return
        if model_config.is_diffusion:
            raise _no_grammars("diffusion models take none: they do not write from left to right")
        if tokenizer is None:
            raise _no_grammars("it was started without a tokenizer")

    return checking


def _no_grammars(why: str) -> Exception:
    message = f"this server cannot constrain what it generates: {why}"
    error = GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, hint="leave the constraint out")
    log_failure(logger, error)
    return causes.exception(error)


def _leaving_it_to_admission(check: Callable[..., None]) -> Callable[..., None]:
    """For a check by vLLM's own backend, on the event loop."""

    def leaving(sampling_params: Any) -> None:
        if _vllm_checks.get():
            check(sampling_params)

    return leaving


def _admitting(add_request: Callable[..., Any]) -> Callable[..., Any]:
    async def admitting(self: Any, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if admission := getattr(self, _ADMISSION, None):
            await admission.admit(request_id, params)
        return await add_request(self, request_id, prompt, params, *args, **kwargs)

    return admitting


def _admitting_now(add_request: Callable[..., Any]) -> Callable[..., Any]:
    def admitting(self: Any, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if admission := getattr(self, _ADMISSION, None):
            admission.admit_now(request_id, params)
        return add_request(self, request_id, prompt, params, *args, **kwargs)

    return admitting


def _saying_why(generate: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    async def saying_why(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        outputs = generate(self, *args, **kwargs)
        try:
            async for output in outputs:
                if error := causes.cause_of(output):
                    raise causes.exception(error)
                yield output
        finally:
            await outputs.aclose()

    return saying_why


def _with_a_door(init: Callable[..., None], admission: Admission) -> Callable[..., None]:
    def with_a_door(args: Any, app: Any, *others: Any, **kwargs: Any) -> None:
        app.add_middleware(Door, admission=admission)  # first, and so inside of the others
        init(args, app, *others, **kwargs)

    return with_a_door
