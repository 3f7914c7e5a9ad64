"""GuideLLM, a load generator: what it counts as done and what as failed."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.environments import needs, run
from tests.serve.process import ServeProcess

pytestmark = [pytest.mark.clients, pytest.mark.model, needs("guidellm")]

STREAMS: Final = 8
CHOICE: Final = {"structured_outputs": {"choice": ["yes", "no"]}}
SCHEMA: Final = {"type": "object", "properties": {"even": {"type": "boolean"}}, "required": ["even"]}
JSON: Final = {
    "structured_outputs": {"json": {**SCHEMA, "additionalProperties": False}, "disable_any_whitespace": True}
}
REFUSED: Final = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "intger"}}}
}


def load(
    server: ServeProcess, folder: Path, fields: Mapping[str, Any], count: int, tokens: int | None = None, **backend: Any
) -> Any:
    """What ``guidellm run`` reports of ``count`` requests with these fields, for answers of so many tokens if that is
    said; ``backend`` is more of its settings."""
    prompts, report = folder / "prompts.csv", folder / "report.json"
    with prompts.open("w", newline="") as file:
        rows = [{"prompt": f"Is {number} even?", "output_tokens_count": tokens} for number in range(count)]
        writer = csv.DictWriter(
            file, ("prompt", "output_tokens_count")[: 1 if tokens is None else 2], extrasaction="ignore"
        )
        writer.writeheader()
        writer.writerows(rows)
    asks = {"kind": "openai_http", "target": server.address, "model": "smollm2", "max_tokens": 16, **backend}
    # What is synthetic is cut by a tokenizer; prompts from a file need none, nor any network.
    options = {
        "--backend": asks | {"extras": {"body": fields}},
        "--profile": {"kind": "concurrent", "streams": [STREAMS]},
        "--constraint": {"kind": "max_requests", "count": count},
        "--data": {"kind": "csv_file", "path": str(prompts)},
        "--output": {"kind": "json", "path": str(report)},
    }
    arguments = [each for name, value in options.items() for each in (name, json.dumps(value))]
    run(
        "guidellm",
        "-m",
        "guidellm",
        "run",
        *arguments,
        "--disable-console",
        cwd=folder,
        GUIDELLM__MAX_WORKER_PROCESSES="1",
    )
    [benchmark] = json.loads(report.read_text())["benchmarks"]
    return benchmark


def counts(benchmark: Any) -> tuple[int, int, int]:
    """How many requests were successful, errored and incomplete, in the sums and in the lists of requests."""
    names = ("successful", "errored", "incomplete")
    totals, requests = benchmark["metrics"]["request_totals"], benchmark["requests"]
    successful, errored, incomplete = (len(requests[name]) for name in names)
    assert [totals[name] for name in names] == [successful, errored, incomplete]
    return successful, errored, incomplete


def test_two_hundred_requests_with_structured_output_are_two_hundred_answers(
    server: ServeProcess, tmp_path: Path
) -> None:
    benchmark = load(server, tmp_path, CHOICE, 200)
    assert counts(benchmark) == (200, 0, 0)
    assert {request["output"] for request in benchmark["requests"]["successful"]} <= {"yes", "no"}


def test_completions_that_do_not_stream(server: ServeProcess, tmp_path: Path) -> None:
    benchmark = load(server, tmp_path, JSON, 20, request_format="/v1/completions", stream=False)
    assert counts(benchmark) == (20, 0, 0)
    outputs = {request["output"] for request in benchmark["requests"]["successful"]}
    assert outputs <= {'{"even":true}', '{"even":false}'}


@pytest.mark.parametrize(
    ("fields", "request_format"), [({"min_tokens": 9}, "/v1/chat/completions"), ({}, "/v1/completions")]
)
def test_answers_of_a_length_that_is_given(
    server: ServeProcess, tmp_path: Path, fields: Mapping[str, Any], request_format: str
) -> None:
    benchmark = load(server, tmp_path, fields, 10, 9, request_format=request_format)
    assert counts(benchmark) == (10, 0, 0)
    assert [request["output_tokens"] for request in benchmark["requests"]["successful"]] == [9] * 10


def test_a_grammar_bounds_the_length_that_is_given(server: ServeProcess, tmp_path: Path) -> None:
    benchmark = load(server, tmp_path, CHOICE, 10, 9)
    assert counts(benchmark) == (10, 0, 0)
    assert {request["output"] for request in benchmark["requests"]["successful"]} <= {"yes", "no"}


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_fails_is_an_error_and_no_answer(server: ServeProcess, tmp_path: Path, stream: bool) -> None:
    benchmark = load(server, tmp_path, REFUSED, 20, stream=stream)
    assert counts(benchmark) == (0, 20, 0)
    assert all("400" in request["info"]["error"] for request in benchmark["requests"]["errored"])
