"""Two engine cores and two API servers in one ``vllm serve``: each engine core has grammars and counts of its own."""

import contextlib
import http.client
import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import openai
import pytest

from tests.engines.test_vllm_in_process import BACKENDS, PROMPT, REFUSED
from tests.engines.vllm_server import VllmServer, free_port, install_failing_plugin, vllm_serve

pytestmark = [pytest.mark.engines, pytest.mark.model]

RANKS: Final = (0, 1)
PLACES: Final = 256
"""A quarter of a lane of the compile service: what one session may take."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    folder = tmp_path_factory.mktemp("vllm")
    install_failing_plugin(folder)
    settings = {"metrics_port": free_port(), "sandbox_workers": 1}
    with vllm_serve(folder, "--data-parallel-size", "2", path=[folder], settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: VllmServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=300) as client:
        yield client


def ask(client: openai.OpenAI, rank: int, constraint: Mapping[str, Any], **body: Any) -> str:
    """The answer of one engine core."""
    choice = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": PROMPT}],
        max_tokens=16,
        extra_headers={"X-data-parallel-rank": str(rank)},
        extra_body={"structured_outputs": constraint, **body},
    ).choices[0]
    assert choice.finish_reason == "stop"
    return str(choice.message.content)


def test_all_backends_work_in_both(server: VllmServer, client: openai.OpenAI) -> None:
    asked = [(rank, backend, number) for number in range(2) for rank in RANKS for backend in BACKENDS]
    with ThreadPoolExecutor(len(asked)) as threads:
        texts = list(
            threads.map(lambda each: ask(client, each[0], {"regex": f"{each[2]}[0-9]{{2}}", "backend": each[1]}), asked)
        )
    assert all(re.fullmatch(f"{number}[0-9]{{2}}", text) for (_, _, number), text in zip(asked, texts, strict=True))
    counts = [server.metrics(rank)['structout_requests_total{outcome="ok"}'] for rank in RANKS]
    assert counts == [len(asked) / 2] * 2


@pytest.mark.parametrize("rank", RANKS)
def test_the_cause_of_either_comes_back(client: openai.OpenAI, rank: int) -> None:
    for _ in range(4):  # whichever of the API servers it comes to
        with pytest.raises(openai.BadRequestError, match="unsatisfiable"):
            ask(client, rank, {"json": REFUSED["unsatisfiable"]})
        with pytest.raises(openai.BadRequestError, match="jsn"):
            ask(client, rank, {"jsn": {}})
        with pytest.raises(openai.InternalServerError, match="fails_to_fill"):
            ask(client, rank, {"choice": ["no"], "backend": "fails_to_fill"})


@pytest.mark.parametrize("rank", RANKS)
def test_a_stop_string_ends_a_text_where_it_is_complete(client: openai.OpenAI, rank: int) -> None:
    for _ in range(4):
        assert ask(client, rank, {"regex": "(7;){3}"}, stop=[";"]) == "7;7;7;"


def test_a_session_has_its_places_in_each(server: VllmServer, client: openai.OpenAI) -> None:
    """Where it has taken all, it is refused; with the other engine core it is served."""
    with contextlib.ExitStack() as stack:
        for number in range(PLACES):
            stack.enter_context(hanging(server, 0, number))
        wait_for_blocked(server, 0, PLACES)
        with pytest.raises(openai.InternalServerError, match="overloaded") as refused:
            ask(client, 0, {"choice": ["nothing", "a"], "backend": "hazards"}, session_id="busy")
        assert refused.value.status_code == 503
        assert ask(client, 1, {"choice": ["nothing", "a"], "backend": "hazards"}, session_id="busy")
        assert ask(client, 0, {"choice": ["Lutz"]}, session_id="another") == "Lutz"
    wait_for_blocked(server, 0, 0)


@contextlib.contextmanager
def hanging(server: VllmServer, rank: int, number: int) -> Iterator[None]:
    """A client of the session that waits for a grammar that never comes."""
    constraint = {"choice": ["hang", str(number)], "backend": "hazards"}
    messages = [{"role": "user", "content": PROMPT}]
    body = {"model": "smollm2", "messages": messages, "structured_outputs": constraint, "session_id": "busy"}
    address = urllib.parse.urlsplit(server.address).netloc
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        headers = {"Content-Type": "application/json", "X-data-parallel-rank": str(rank)}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        yield


def wait_for_blocked(server: VllmServer, rank: int, count: int) -> None:
    since = time.monotonic()
    while server.metrics(rank)["structout_blocked_requests"] != count:
        assert time.monotonic() - since < 120, "a guard against a hang"
        time.sleep(0.1)


def test_vllm_adds_up_what_its_processes_count(server: VllmServer) -> None:
    """With several API servers its own /metrics has counters of all processes, and so two of ours."""
    with urllib.request.urlopen(f"{server.address}/metrics", timeout=60) as reply:
        told = reply.read().decode()
    name = 'structout_wait_seconds_count{outcome="unsatisfiable"}'
    (line,) = (line for line in told.splitlines() if line.startswith(name))
    assert float(line.split()[-1]) == sum(server.metrics(rank)[name] for rank in RANKS)
