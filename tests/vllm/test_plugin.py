"""What vLLM's front end does once structout is switched on in it, and that it does what it did where it is not."""

import asyncio
import importlib
import sys
import threading
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

import attrs
import pytest

from engine_adapter.vllm import causes, names, plugin
from engine_adapter.vllm.admission import Admission
from engine_adapter.vllm.door import Door
from engine_adapter.vllm.settings import SCHEDULER
from structout import ErrorKind, Fault, GrammarError
from tests.vllm.support import Params, StructuredOutputs, params

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
        self.vllm_config = vllm_config
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
        """As vLLM's: asks its own backend, and says which it is to be."""
        of("vllm.v1.structured_output.backend_xgrammar", "validate_xgrammar_grammar")(self)
        raise AssertionError("vLLM's own check went on")


def validate_xgrammar_grammar(sampling_params: Any) -> None:
    assert sampling_params.structured_outputs != "refused", "vLLM's own backend"


class IncrementalDetokenizer:
    @classmethod
    def from_new_request(cls, tokenizer: object, request: object) -> None: ...


class BaseIncrementalDetokenizer:
    def update(self, new_token_ids: object, stop_terminated: object) -> None: ...


class OutputProcessor:
    def process_outputs(self, engine_core_outputs: object) -> None: ...


def init_entrypoints_middleware(args: object, app: Any) -> None:
    app.add_middleware("vLLM's")


HELD: dict[str, list[Any]] = {
    "vllm.v1.engine.async_llm": [AsyncLLM],
    "vllm.v1.engine.llm_engine": [LLMEngine],
    "vllm.sampling_params": [SamplingParams],
    "vllm.v1.structured_output.backend_xgrammar": [validate_xgrammar_grammar],
    "vllm.v1.engine.detokenizer": [IncrementalDetokenizer, BaseIncrementalDetokenizer],
    "vllm.v1.engine.output_processor": [OutputProcessor],
    "vllm.exceptions": [VLLMValidationError, GracefulHTTPError],
    "vllm.entrypoints.launchers.app": [init_entrypoints_middleware],
}

CHANGED = (AsyncLLM, LLMEngine, SamplingParams, IncrementalDetokenizer, OutputProcessor)


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


@attrs.define(eq=False)
class Model:
    """As vLLM's ``ModelConfig``."""

    is_diffusion: bool = False


def config(scheduler: str | None, is_diffusion: bool = False, **settings: object) -> Any:
    scheduler_config = SimpleNamespace(scheduler_cls=scheduler)
    return SimpleNamespace(
        additional_config={"structout": settings},
        scheduler_config=scheduler_config,
        model_config=Model(is_diffusion),
    )


def server(*stop_reasons: object, scheduler: str | None = SCHEDULER, **settings: Any) -> Any:
    return of("vllm.v1.engine.async_llm", "AsyncLLM")(config(scheduler, **settings), list(stop_reasons))


def check(engine: Any, structured_outputs: object, tokenizer: object = "a tokenizer") -> None:
    """vLLM's check of a request, as its engines do it."""
    asked = of("vllm.sampling_params", "SamplingParams")(structured_outputs)
    asked._validate_structured_outputs(engine.vllm_config.model_config, "a configuration", tokenizer)


async def outputs(engine: Any, sampling_params: object) -> list[Any]:
    generated = engine.generate("prompt", sampling_params, request_id="id")
    return [output.outputs[0].stop_reason async for output in generated]


@pytest.mark.usefixtures("vllm")
def test_switched_off_nothing_changes() -> None:
    engine = server(causes.stop_reason(FAILED), scheduler=None)
    assert asyncio.run(outputs(engine, params(choice=[]))) == [causes.stop_reason(FAILED)]
    with pytest.raises(AssertionError, match="own check"):
        check(engine, "taken")


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
def test_what_cannot_be_read_does_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    engine = server(None)
    with pytest.raises(
        of("vllm.exceptions", "VLLMValidationError"), match="invalid_spec at /structured_outputs/choice"
    ):
        asyncio.run(outputs(engine, params(choice=[])))
    assert engine.added == []
    (record,) = (each for each in caplog.records if each.name.startswith("engine_adapter"))
    assert vars(record)["request_id"] == "id"
    assert record.levelname == "INFO"


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
    engine, refused = server(), SimpleNamespace(structured_outputs="refused")
    of("vllm.v1.structured_output.backend_xgrammar", "validate_xgrammar_grammar")(refused)
    check(engine, "refused")


@pytest.mark.usefixtures("vllm")
def test_engines_in_one_process_have_their_own_checks() -> None:
    ours, other, unreadable = server(None), server(None, scheduler=None), params(choice=[])
    for _ in range(2):
        check(ours, "refused")
        with pytest.raises(AssertionError, match="own backend"):
            check(other, "refused")
        with pytest.raises(AssertionError, match="own check went on"):
            check(other, "taken")
    assert asyncio.run(outputs(other, unreadable)) == [None]
    with pytest.raises(of("vllm.exceptions", "VLLMValidationError")):
        asyncio.run(outputs(ours, unreadable))


class Slow(StructuredOutputs):
    """Is not read before it is released."""

    released = threading.Event()

    def all_constraints_none(self) -> bool:
        self.released.wait()
        return True


@pytest.mark.usefixtures("vllm")
def test_engines_in_one_process_have_their_own_deadlines() -> None:
    patient, hasty, slow = server(None, deadline_s=60), server(None, deadline_s=1e-3), Params(Slow())
    try:
        with pytest.raises(of("vllm.exceptions", "GracefulHTTPError"), match=r"not read within 0\.001 s"):
            asyncio.run(outputs(hasty, slow))
    finally:
        Slow.released.set()
    assert asyncio.run(outputs(patient, slow)) == [None]


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(("is_diffusion", "tokenizer"), [(True, object()), (False, None)])
def test_where_there_can_be_no_grammar_that_is_said(is_diffusion: bool, tokenizer: object) -> None:
    engine = server(is_diffusion=is_diffusion)
    with pytest.raises(of("vllm.exceptions", "VLLMValidationError"), match="cannot constrain"):
        check(engine, params(choice=["a"]).structured_outputs, tokenizer)


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
