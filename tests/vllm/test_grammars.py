"""structout's compile service where vLLM calls its executor and its backend."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from engine_adapter.vllm.asking import BACKEND
from engine_adapter.vllm.grammars import Grammars, refuse_slow, usual_backends
from engine_adapter.vllm.settings import Settings
from structout import Err, ErrorKind, Ok, Regex
from structout.compile.sandbox import Tried
from structout.discovery import discover
from structout.processes import Stop
from tests.fakes import BYTES, TriePlugin, trie_info
from tests.vllm.support import Params, params

PLUGIN = TriePlugin(trie_info("first"), trie_info("second"), attrs.evolve(trie_info("apart"), by_name_only=True))
REGISTRY = discover(plugins={"tries": PLUGIN}, entry_points=())


@pytest.fixture
def grammars() -> Iterator[Grammars]:
    opened = Grammars(REGISTRY, BYTES, Settings(sandbox_workers=0, backend="second"))
    yield opened
    opened.shutdown(wait=True, cancel_futures=True)
    opened.destroy()


def request(sampling_params: Any) -> Any:
    return SimpleNamespace(request_id="id", sampling_params=sampling_params, session_id=None)


def submit(grammars: Grammars, sampling_params: Any) -> Any:
    return grammars.submit(None, request(sampling_params)).wait(60)


def test_a_request_has_its_backend_or_the_servers(grammars: Grammars) -> None:
    assert submit(grammars, params({BACKEND: "first"}, choice=["a"])).unwrap().backend.id == "first"
    assert submit(grammars, params(choice=["a"])).unwrap().backend.id == "second"


def test_the_servers_backend_is_loaded_with_those_that_need_no_name() -> None:
    assert usual_backends(REGISTRY, None) == ["first", "second"]
    assert usual_backends(REGISTRY, "second") == ["first", "second"]
    assert usual_backends(REGISTRY, "apart") == ["first", "second", "apart"]


def test_a_backend_that_is_not_there_keeps_the_server_from_starting() -> None:
    with pytest.raises(ValueError, match=r"structout\.backend: .*'third'.*there are apart, first, second"):
        Grammars(REGISTRY, BYTES, Settings(backend="third"))


def test_equal_requests_are_compiled_once(grammars: Grammars) -> None:
    assert submit(grammars, params(choice=["a"])).unwrap() is submit(grammars, params(choice=["a"])).unwrap()


@pytest.mark.parametrize(
    ("sampling_params", "kind"),
    [
        (params(choice=[]), ErrorKind.INVALID_SPEC),
        (params(regex="a"), ErrorKind.UNSUPPORTED),
        (params({BACKEND: "third"}, choice=["a"]), ErrorKind.UNAVAILABLE),
        (params(choice=["raise"]), ErrorKind.BACKEND_FAILURE),
        (Params(), ErrorKind.ENGINE_FAILURE),
        (SimpleNamespace(structured_outputs=3), ErrorKind.ENGINE_FAILURE),
    ],
    ids=repr,
)
def test_a_failure_is_a_result(grammars: Grammars, sampling_params: Any, kind: ErrorKind) -> None:
    result = submit(grammars, sampling_params)
    assert isinstance(result, Err)
    assert result.error.kind is kind


def test_nobody_waits_for_what_was_shut_down(grammars: Grammars) -> None:
    grammars.shutdown()
    assert isinstance(submit(grammars, params(choice=["a"])), Err)


@pytest.mark.parametrize(("seconds", "is_refused"), [(0.05, False), (0.06, True)])
def test_what_is_slow_to_fill_is_refused(seconds: float, is_refused: bool) -> None:
    tried = Tried(backend="first", compile_s=0.0, slowest_fill_s=seconds, fills=1, grown_bytes=0)
    result = refuse_slow(0.05)(Regex("a"), tried, Stop())
    assert isinstance(result, Err) is is_refused
    if isinstance(result, Err):
        assert result.error.consequence.http_status == 400
        assert not result.error.consequence.cacheable
    assert not isinstance(result, Ok)
