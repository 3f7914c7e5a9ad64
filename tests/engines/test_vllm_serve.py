"""A real ``vllm serve`` with structout in it, asked by OpenAI's own client."""

import contextlib
import http.client
import json
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import openai
import pytest

from tests.engines.test_vllm_in_process import BACKENDS, EMPTYING, HARMLESS, KINDS, PROMPT, REFUSED, SCHEMA, SEVENS
from tests.engines.vllm_server import VllmServer, free_port, install_failing_plugin, vllm_serve

pytestmark = [pytest.mark.engines, pytest.mark.model]

CANCELLED: Final = 'structout_requests_total{outcome="cancelled"}'
UNSATISFIABLE: Final = REFUSED["unsatisfiable"]
UNWANTED: Final = {"logit_bias": {str(id): -100 for id in range(1000)}}
"""Among these are all digits."""

MESSAGES: Final[Any] = [{"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """With a backend whose matchers fail, installed as any other; two of its grammars may hang, each in a process."""
    folder = tmp_path_factory.mktemp("vllm")
    install_failing_plugin(folder)
    tools = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    settings = {"metrics_port": free_port(), "sandbox_workers": 3}
    with vllm_serve(folder, *tools, path=[folder], settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: VllmServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=300) as client:
        yield client


def chat(client: openai.OpenAI, **arguments: Any) -> Any:
    arguments = {"messages": MESSAGES, "max_tokens": 48, "temperature": 0, **arguments}
    return client.chat.completions.create(model="smollm2", **arguments)


def constrained(client: openai.OpenAI, constraint: Mapping[str, Any], **arguments: Any) -> str:
    choice = chat(client, extra_body={"structured_outputs": constraint}, **arguments).choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content
    return str(choice.message.content)


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_constraint_is_kept(client: openai.OpenAI, kind: str) -> None:
    constraint, pattern = KINDS[kind]
    assert re.fullmatch(pattern, constrained(client, constraint))


def test_a_response_format_is_kept(client: openai.OpenAI) -> None:
    text = chat(client, response_format=response_format(SCHEMA)).choices[0].message.content
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(text))


def test_it_is_kept_in_a_stream(client: openai.OpenAI) -> None:
    with chat(client, response_format=response_format(SCHEMA), stream=True) as stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(text))


def test_a_forced_tool_call_is_kept(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "visit", "parameters": SCHEMA, "strict": True}}
    choice: Any = {"type": "function", "function": {"name": "visit"}}
    (call,) = chat(client, tools=[tool], tool_choice=choice, max_tokens=128).choices[0].message.tool_calls
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(call.function.arguments))


def test_three_backends_are_interleaved_in_one_process(client: openai.OpenAI) -> None:
    def ask(number: int) -> str:
        constraint = {"regex": f"{number}-[0-9]{{3}}", "backend": BACKENDS[number % len(BACKENDS)]}
        return constrained(client, constraint)

    with ThreadPoolExecutor(12) as threads:
        texts = list(threads.map(ask, range(12)))
    assert all(re.fullmatch(f"{number}-[0-9]{{3}}", text) for number, text in enumerate(texts))


def ask_chat(client: openai.OpenAI, stream: bool, **body: Any) -> Any:
    return chat(client, stream=stream, extra_body=body)


def ask_completions(client: openai.OpenAI, stream: bool, **body: Any) -> Any:
    return client.completions.create(model="smollm2", prompt=PROMPT, max_tokens=8, stream=stream, extra_body=body)


def ask_responses(client: openai.OpenAI, stream: bool, **body: Any) -> Any:
    return client.responses.create(model="smollm2", input=PROMPT, max_output_tokens=8, stream=stream, extra_body=body)


ENDPOINTS: Final[tuple[Callable[..., Any], ...]] = (ask_chat, ask_completions, ask_responses)
everywhere = pytest.mark.parametrize("ask", ENDPOINTS, ids=lambda ask: ask.__name__)
streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@everywhere
@streaming
def test_a_failure_that_only_the_engine_knows_is_400_with_its_cause(
    client: openai.OpenAI, ask: Callable[..., Any], stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match="unsatisfiable"):
        ask(client, stream, structured_outputs={"json": UNSATISFIABLE})


@everywhere
@streaming
@pytest.mark.parametrize(
    ("backend", "status"), [("fails_to_fill", 500), ("fails_to_accept", 500), ("has_nothing", 400)]
)
def test_a_grammar_that_fails_while_generating_is_no_success(
    client: openai.OpenAI, ask: Callable[..., Any], stream: bool, backend: str, status: int
) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        ask(client, stream, structured_outputs={"choice": ["yes"], "backend": backend})
    assert raised.value.status_code == status
    assert "secret" not in str(raised.value)
    assert backend in str(raised.value)
    assert ("no token can follow" in str(raised.value)) is (backend == "has_nothing")


@pytest.mark.parametrize("ask", [ask_chat, ask_completions])
@streaming
@pytest.mark.parametrize("parameters", EMPTYING, ids=lambda parameters: next(iter(parameters)))
def test_parameters_that_leave_the_grammar_nothing_are_400(
    client: openai.OpenAI, ask: Callable[..., Any], stream: bool, parameters: Mapping[str, Any]
) -> None:
    """Those that vLLM reads in requests of these two kinds alone."""
    with pytest.raises(openai.BadRequestError, match=f"{next(iter(parameters))} forbid every token"):
        ask(client, stream, structured_outputs=SEVENS, **parameters)


@pytest.mark.parametrize("parameters", [*HARMLESS, UNWANTED], ids=["none", "min_tokens", "bad_words", "bias"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_no_other_parameter_keeps_it_from_being_written(
    client: openai.OpenAI, parameters: Mapping[str, Any], temperature: float
) -> None:
    choice = chat(client, extra_body={"structured_outputs": SEVENS, **parameters}, temperature=temperature).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("777", "stop")


ON_AND_ON: Final = {"logit_bias": {"0": -100, "2": -100}}
"""Has the model end a text only where it has to: these are its stop tokens."""


@streaming
@pytest.mark.parametrize("parameters", [{}, {"n": 2, "temperature": 1}], ids=["one", "two"])
@pytest.mark.parametrize(
    ("regex", "includes", "ends"),
    [("77(;77)*", False, ("77", "stop", ";")), ("(77;)+", True, ("77;", "stop", ";")), ("(7;){4}", False, None)],
    ids=["before", "behind", "nowhere"],
)
def test_a_stop_string_ends_a_text_only_where_it_is_complete(
    client: openai.OpenAI, stream: bool, parameters: Mapping[str, Any], regex: str, includes: bool, ends: Any
) -> None:
    body = {"structured_outputs": {"regex": regex}, "include_stop_str_in_output": includes, **ON_AND_ON}
    answer = chat(client, stop=["x", ";"], stream=stream, extra_body=body, **parameters)
    texts: dict[int, str] = {}
    for choice in (choice for chunk in (answer if stream else [answer]) for choice in chunk.choices):
        said = choice.delta if stream else choice.message
        texts[choice.index] = texts.get(choice.index, "") + (said.content or "")
        if choice.finish_reason:
            found = (texts[choice.index], choice.finish_reason, choice.stop_reason)
            assert found == (ends or ("7;7;7;7;", "stop", None))
    assert len(texts) == parameters.get("n", 1)


def test_a_stop_string_does_not_cut_a_document(client: openai.OpenAI) -> None:
    text = chat(client, response_format=response_format(SCHEMA), stop=[",", '"', "}"]).choices[0].message.content
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(text))


def test_a_stop_string_ends_free_text_wherever_it_occurs(client: openai.OpenAI) -> None:
    whole = chat(client).choices[0].message.content
    choice = chat(client, stop=[whole[5:9]]).choices[0]
    assert choice.message.content == whole[: whole.index(whole[5:9])]


def test_one_cause_for_all_samples(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="unsatisfiable"):
        chat(client, n=3, temperature=1, response_format=response_format(UNSATISFIABLE))


@everywhere
@pytest.mark.parametrize("field", ["structured_output", "guided_json", "json_schema", "response_fromat"])
def test_a_field_that_vllm_does_not_read_is_refused(client: openai.OpenAI, ask: Callable[..., Any], field: str) -> None:
    with pytest.raises(openai.BadRequestError, match=field):
        ask(client, False, **{field: {"type": "object"}})


def test_a_misspelt_constraint_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="jsn"):
        constrained(client, {"jsn": {}})


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_is_enforced_or_refused(client: openai.OpenAI, name: str) -> None:
    try:
        choice = chat(client, response_format=response_format(REFUSED[name])).choices[0]
    except openai.BadRequestError:
        return
    if choice.finish_reason == "stop":
        assert jsonschema_rs.is_valid(REFUSED[name], json.loads(choice.message.content))


def nested(depth: int) -> dict[str, Any]:
    """``oneOf`` in ``oneOf``: some hundred kilobytes at depth 12."""
    if not depth:
        return {"type": "integer"}
    inner = nested(depth - 1)
    return {"oneOf": [inner, {"type": "object", "properties": {"a": inner}}]}


def health_s(server: VllmServer) -> float:
    """How long /health takes to answer, in seconds."""
    address = urllib.parse.urlsplit(server.address).netloc
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        since = time.monotonic()
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        return time.monotonic() - since


def test_a_schema_that_takes_long_stops_nobody(server: VllmServer, client: openai.OpenAI) -> None:
    """The slowest answer while the schema is looked at; the best of three tries, as others may have the processor."""

    def slowest() -> float:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(chat, client, response_format=response_format(nested(12)), max_tokens=8)
            worst = health_s(server)
            while not asked.done():
                worst = max(worst, health_s(server))
                time.sleep(0.01)
            assert asked.exception() is None or isinstance(asked.exception(), openai.APIStatusError)
        return worst

    assert min(slowest() for _ in range(3)) < 0.1


@streaming
def test_a_client_that_leaves_stops_its_compile(server: VllmServer, tmp_path: Path, stream: bool) -> None:
    """And no other's: both hang in processes, and would do so for longer."""
    leaving, staying = tmp_path / "leaving", tmp_path / "staying"
    with hanging(server, leaving, stream) as connection, hanging(server, staying, stream):
        pids = [pid_in(path) for path in (leaving, staying)]
        before = server.metrics()
        assert [before["structout_blocked_requests"], *map(is_alive, pids)] == [2, True, True]
        connection.close()
        wait_until(lambda: not is_alive(pids[0]))
        assert is_alive(pids[1])
        wait_until(lambda: server.metrics()["structout_blocked_requests"] == 1)
        assert server.metrics()[CANCELLED] == before.get(CANCELLED, 0) + 1
    wait_until(lambda: server.metrics()["structout_blocked_requests"] == 0)


@contextlib.contextmanager
def hanging(server: VllmServer, mark: Path, stream: bool) -> Iterator[http.client.HTTPConnection]:
    """A client that waits for a grammar that never comes; the process that compiles writes its id to the file."""
    constraint = {"choice": ["hang", f"mark:{mark}"], "backend": "hazards"}
    body = {"model": "smollm2", "messages": MESSAGES, "stream": stream, "structured_outputs": constraint}
    address = urllib.parse.urlsplit(server.address).netloc
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"))
        yield connection


def pid_in(path: Path) -> int:
    return int(path.read_text().split()[-1])


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(happens: Callable[[], bool]) -> None:
    since = time.monotonic()
    while not happens():
        assert time.monotonic() - since < 60, "a guard against a hang"
        time.sleep(0.02)


def small_s(client: openai.OpenAI) -> float:
    """How long a small request takes, in seconds: the best of three."""

    def once(number: int) -> float:
        since = time.monotonic()
        constrained(client, {"regex": f"{time.monotonic_ns()}-{number}"}, max_tokens=32)
        return time.monotonic() - since

    return min(map(once, range(3)))


def test_small_requests_go_on_beside_a_huge_enumeration(client: openai.OpenAI) -> None:
    quiet = small_s(client)
    strings = [f"{number:05}-{'x' * 20}" for number in range(20_000)]
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(chat, client, response_format=response_format({"enum": strings}), max_tokens=4)
        beside = small_s(client)
        assert asked.exception() is None or isinstance(asked.exception(), openai.APIStatusError)
    assert beside < 2 * quiet


def test_the_log_says_what_clients_are_not_told(server: VllmServer, client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError):
        constrained(client, {"choice": ["no"], "backend": "fails_to_fill"})
    assert "secret internals" in Path(server.log).read_text()


def test_what_happens_is_counted(server: VllmServer, client: openai.OpenAI) -> None:
    names = [f'structout_requests_total{{outcome="{outcome}"}}' for outcome in ("ok", "unsatisfiable")]
    names += ["structout_cache_hits_total"]
    before = server.metrics()
    for _ in range(2):
        constrained(client, {"choice": ["counted"]})
    with pytest.raises(openai.BadRequestError):
        chat(client, response_format=response_format(UNSATISFIABLE))
    after = server.metrics()
    ok, refused, hits = (after[name] - before.get(name, 0) for name in names)
    assert (ok, refused) == (2, 1)
    assert hits >= 1
    assert after["structout_blocked_requests"] == 0
