"""What vLLM's front end does once structout is switched on in it, and that it does what it did where it is not."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from engine_adapter.vllm import causes, names, plugin
from engine_adapter.vllm.admission import Admission
from engine_adapter.vllm.door import Door
from engine_adapter.vllm.settings import SCHEDULER
from structout import ErrorKind, Fault, GrammarError
from tests.vllm.support import params

FAILED = GrammarError(kind=ErrorKind.OVERLOADED, message="full")


class VLLMValidationError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)


class GracefulHTTPError(Exception):
    def __init__(self, message: str, http_status: int) -> None:
        super().__init__(message)
        self.http_status = http_status


class AsyncLLM:
    """Answers every request with ``stop_reasons``."""

    def __init__(self, vllm_config: Any, stop_reasons: list[Any]) -> None:
        self.stop_reasons = stop_reasons
        self.added: list[Any] = []
        self.closed = 0

    async def add_request(self, request_id: str, prompt: object, params: object) -> None:
        self.added.append(params)

    async def generate(self, prompt: object, sampling_params: object, request_id: str) -> AsyncIterator[Any]:
        await self.add_request(request_id, prompt, sampling_params)
        try:
            for stop_reason in self.stop_reasons:
                finish_reason = "error" if isinstance(stop_reason, str) and ":" in stop_reason else "stop"
                yield SimpleNamespace(outputs=[SimpleNamespace(finish_reason=finish_reason, stop_reason=stop_reason)])
        finally:
            self.closed += 1


class LLMEngine:
    def __init__(self, vllm_config: Any) -> None:
        self.added: list[Any] = []

    def add_request(self, request_id: str, prompt: object, params: object) -> None:
        self.added.append(params)


class SamplingParams:
    def __init__(self, structured_outputs: object) -> None:
        self.structured_outputs = structured_outputs

    def _validate_structured_outputs(
        self, model_config: object, structured_outputs_config: object, tokenizer: object
    ) -> None:
        raise AssertionError("vLLM's own check, with its own backends")


def validate_xgrammar_grammar(sampling_params: object) -> None:
    raise AssertionError("vLLM's own backend, on the event loop")


def init_entrypoints_middleware(args: object, app: Any) -> None:
    app.add_middleware("vLLM's")


HELD: dict[str, list[Any]] = {
    "vllm.v1.engine.async_llm": [AsyncLLM],
    "vllm.v1.engine.llm_engine": [LLMEngine],
    "vllm.sampling_params": [SamplingParams],
    "vllm.v1.structured_output.backend_xgrammar": [validate_xgrammar_grammar],
    "vllm.exceptions": [VLLMValidationError, GracefulHTTPError],
    "vllm.entrypoints.launchers.app": [init_entrypoints_middleware],
}

CHANGED = (AsyncLLM, LLMEngine, SamplingParams)


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM that has the names that are relied on, and little else."""
    for path, members in HELD.items():
        module = ModuleType(path)
        for member in members:
            vars(module)[member.__name__] = _copy(member) if member in CHANGED else member
        monkeypatch.setitem(sys.modules, path, module)
    plugin.register()


def _copy(member: type) -> type:
    """A class of its own, to be changed."""
    own = {name: value for name, value in vars(member).items() if name not in ("__dict__", "__weakref__")}
    return type(member.__name__, member.__bases__, own)


def of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def config(scheduler: str | None) -> Any:
    scheduler_config = SimpleNamespace(scheduler_cls=scheduler)
    return SimpleNamespace(additional_config={}, scheduler_config=scheduler_config)


def server(*stop_reasons: object, scheduler: str | None = SCHEDULER) -> Any:
    return of("vllm.v1.engine.async_llm", "AsyncLLM")(config(scheduler), list(stop_reasons))


async def outputs(engine: Any, sampling_params: object) -> list[Any]:
    generated = engine.generate("prompt", sampling_params, request_id="id")
    return [output.outputs[0].stop_reason async for output in generated]


@pytest.mark.usefixtures("vllm")
def test_switched_off_nothing_changes() -> None:
    engine = server(causes.stop_reason(FAILED), scheduler=None)
    assert asyncio.run(outputs(engine, params(choice=[]))) == [causes.stop_reason(FAILED)]
    with pytest.raises(AssertionError, match="own check"):
        of("vllm.sampling_params", "SamplingParams")(1)._validate_structured_outputs(1, 2, 3)


@pytest.mark.usefixtures("vllm")
def test_it_may_be_registered_and_switched_on_again() -> None:
    server()
    before = of("vllm.v1.engine.async_llm", "AsyncLLM").generate
    plugin.register()
    server()
    assert of("vllm.v1.engine.async_llm", "AsyncLLM").generate is before


@pytest.mark.usefixtures("vllm")
def test_what_can_be_read_goes_on() -> None:
    engine, asked = server(None, 2, "a stop string"), params(choice=["a"])
    assert asyncio.run(outputs(engine, asked)) == [None, 2, "a stop string"]
    assert engine.added == [asked]
    assert engine.closed == 1


@pytest.mark.usefixtures("vllm")
def test_what_cannot_be_read_does_not() -> None:
    engine = server(None)
    with pytest.raises(
        of("vllm.exceptions", "VLLMValidationError"), match="invalid_spec at /structured_outputs/choice"
    ):
        asyncio.run(outputs(engine, params(choice=[])))
    assert engine.added == []


@pytest.mark.usefixtures("vllm")
def test_the_same_without_an_event_loop() -> None:
    engine, asked = of("vllm.v1.engine.llm_engine", "LLMEngine")(config(SCHEDULER)), params(choice=["a"])
    engine.add_request("id", "prompt", asked)
    with pytest.raises(of("vllm.exceptions", "VLLMValidationError")):
        engine.add_request("id", "prompt", params(choice=[]))
    assert engine.added == [asked]


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(
    "error",
    [
        FAILED,
        GrammarError(kind=ErrorKind.TIMED_OUT, fault=Fault.SERVICE, message="slow"),
        GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="broke"),
    ],
    ids=lambda error: error.kind,
)
def test_a_cause_is_raised_with_its_status_and_the_rest_given_up(error: GrammarError) -> None:
    engine = server(None, causes.stop_reason(error), None)
    with pytest.raises(of("vllm.exceptions", "GracefulHTTPError"), match=error.message) as raised:
        asyncio.run(outputs(engine, params(choice=["a"])))
    assert raised.value.http_status == error.consequence.http_status
    assert engine.closed == 1


@pytest.mark.usefixtures("vllm")
def test_vllms_own_backends_are_not_asked() -> None:
    server()
    of("vllm.v1.structured_output.backend_xgrammar", "validate_xgrammar_grammar")(1)
    model = SimpleNamespace(is_diffusion=False)
    of("vllm.sampling_params", "SamplingParams")(params())._validate_structured_outputs(model, object(), object())


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(("is_diffusion", "tokenizer"), [(True, object()), (False, None)])
def test_where_there_can_be_no_grammar_that_is_said(is_diffusion: bool, tokenizer: object) -> None:
    server()
    asked = of("vllm.sampling_params", "SamplingParams")(params(choice=["a"]).structured_outputs)
    model = SimpleNamespace(is_diffusion=is_diffusion)
    with pytest.raises(of("vllm.exceptions", "VLLMValidationError"), match="cannot constrain"):
        asked._validate_structured_outputs(model, object(), tokenizer)


@pytest.mark.usefixtures("vllm")
def test_the_door_is_inside_of_vllms_middleware() -> None:
    added: list[Any] = []
    server()
    app = SimpleNamespace(add_middleware=lambda middleware, **kwargs: added.append((middleware, kwargs)))
    of("vllm.entrypoints.launchers.app", "init_entrypoints_middleware")(None, app)
    (first, arguments), (second, _) = added
    assert first is Door
    assert isinstance(arguments["admission"], Admission)
    assert second == "vLLM's"


@pytest.mark.usefixtures("vllm")
def test_another_vllm_is_refused_when_it_is_switched_on_and_left_alone_when_not() -> None:
    delattr(importlib.import_module("vllm.exceptions"), "GracefulHTTPError")
    server(scheduler=None)
    with pytest.raises(names.Unsupported, match="GracefulHTTPError"):
        server()


def test_where_there_is_no_vllm_nothing_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    plugin.register()
    assert "structout cannot look at vLLM's engines" in caplog.text
