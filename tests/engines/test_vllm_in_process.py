"""structout's scheduler in a real vLLM, in one process: every kind of constraint, three backends, and causes."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs
import pytest

from tests.engines.vllm import in_process

pytestmark = [pytest.mark.engines, pytest.mark.model]

PROMPT: Final = 'Name a city as JSON, such as {"city": "Rome", "country": "Italy"}.'
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"enum": ["Lutz", "Nebelsbad"]}, "country": {"const": "Zubrowka"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}
"""No model writes these names unless it has to."""

TAG: Final = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<n>",
        "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
        "end": "</n>",
    },
}
KINDS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "json": ({"json": SCHEMA}, r'\{.*"Zubrowka".*\}'),
    "regex": ({"regex": "[0-9]{3}-[a-f]{2}"}, "[0-9]{3}-[a-f]{2}"),
    "choice": ({"choice": ["Lutz", "Nebelsbad"]}, "Lutz|Nebelsbad"),
    "ebnf": ({"grammar": 'root ::= "Lutz " [0-9] [0-9]'}, "Lutz [0-9]{2}"),
    "structural tag": ({"structural_tag": json.dumps(TAG)}, r"<n>-?[0-9]+</n>"),
}
"""Constraints, and what their texts look like."""

BACKENDS: Final = ("xgrammar", "llguidance", "outlines")

REFUSED: Final[dict[str, dict[str, Any]]] = {
    "allOf": {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 4}], "not": {"const": 3}},
    "not": {
        "type": "object",
        "properties": {"city": {"type": "string", "not": {"const": "Lutz"}}},
        "required": ["city"],
    },
    "if/then": {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    "untyped uniqueItems": {"uniqueItems": True},
    "unsatisfiable": {"type": "integer", "minimum": 3, "maximum": 2},
}
"""Schemas that are enforced, or refused with their cause."""


SEVENS: Final = {"regex": "7{3}"}
"""Of which the model's vocabulary has one spelling."""

EMPTYING: Final[Sequence[dict[str, Any]]] = ({"bad_words": ["7"]}, {"allowed_token_ids": [1000]})
"""Parameters that leave no token of it."""

HARMLESS: Final[Sequence[dict[str, Any]]] = ({}, {"min_tokens": 20}, {"bad_words": ["x"]})
"""Parameters that do not keep it from being written."""


STOPPED: Final[Mapping[str, Any]] = {
    "stop": [";"],
    "include_stop_str_in_output": True,
    "min_tokens": 10,
    "bad_words": ["<|im_end|>", "<|endoftext|>"],
}
"""Nothing but the stop string ends the text, behind 10 tokens or more."""


def ask(structured_outputs: object, backend: str | None = None, **params: object) -> dict[str, Any]:
    extra = {"structout_backend": backend} if backend else {}
    return {"prompt": PROMPT, "structured_outputs": structured_outputs, "params": {"extra_args": extra, **params}}


@pytest.fixture(scope="module", params=[False, True], ids=["synchronous", "asynchronous"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """One engine for all: kinds, backends, refusals, and a free text among them."""
    batches = [
        [ask(constraint, max_tokens=40) for constraint, _ in KINDS.values()] + [{"prompt": PROMPT}],
        [ask({"regex": "[0-9]{3}"}, backend) for backend in BACKENDS * 3],
        [ask({"json": schema}) for schema in REFUSED.values()] + [ask({"choice": ["Lutz"]})],
        [ask({"json": SCHEMA["properties"]["city"]}, n=3, temperature=1.0)],
        [ask({"json": REFUSED["unsatisfiable"]}, n=3, temperature=1.0)],
        [ask({"regex": "(["})],
        [ask({"choice": ["Lutz"]}, "nobody")],
        [ask({"choice": []})],
        [ask({"regex": "(77;)+"}, **STOPPED), ask({"json": SCHEMA}, stop=[",", "}"])],
        [ask(SEVENS, temperature=temperature, **each) for temperature in (0, 1) for each in (*EMPTYING, *HARMLESS)],
    ]
    return in_process(batches, cwd=tmp_path_factory.mktemp("vllm"), asynchronous=request.param)


def texts(report: Mapping[str, Any], batch: int) -> list[str]:
    return [completions[0]["text"] for completions in report["batches"][batch]]


def test_every_kind_of_constraint_is_kept(report: Mapping[str, Any]) -> None:
    *constrained, free = report["batches"][0]
    assert free[0]["finish_reason"] in ("stop", "length")
    for (name, (_, pattern)), (completion,) in zip(KINDS.items(), constrained, strict=True):
        assert completion["finish_reason"] == "stop", name
        assert re.fullmatch(pattern, completion["text"]), name
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(texts(report, 0)[0]))


def test_three_backends_work_in_one_batch(report: Mapping[str, Any]) -> None:
    assert all(re.fullmatch("[0-9]{3}", text) for text in texts(report, 1))


def test_what_is_not_refused_is_enforced(report: Mapping[str, Any]) -> None:
    *answers, (other,) = report["batches"][2]
    assert other["text"] == "Lutz"
    for (name, schema), (completion,) in zip(REFUSED.items(), answers, strict=True):
        if completion["finish_reason"] == "error":
            assert completion["cause"]["kind"] in ("unsupported", "unsatisfiable"), name
            assert completion["text"] == "", name
        elif completion["finish_reason"] == "stop":
            assert jsonschema_rs.is_valid(schema, json.loads(completion["text"])), name
    assert answers[-1][0]["cause"]["kind"] == "unsatisfiable"


def test_all_samples_of_a_request_are_constrained_or_fail_alike(report: Mapping[str, Any]) -> None:
    (good,), (bad,) = report["batches"][3], report["batches"][4]
    assert {json.loads(each["text"]) for each in good} <= {"Lutz", "Nebelsbad"}
    assert [each["cause"]["kind"] for each in bad] == ["unsatisfiable"] * 3


def test_an_unreadable_constraint_is_refused_before_the_engine_has_it(report: Mapping[str, Any]) -> None:
    assert report["batches"][7].startswith("VLLMValidationError: invalid_spec at /structured_outputs/choice")


def test_parameters_that_leave_the_grammar_nothing_end_their_own_request(report: Mapping[str, Any]) -> None:
    completions = [completion for (completion,) in report["batches"][9]]
    for emptied, named in ((0, "bad_words"), (1, "allowed_token_ids")):
        for completion in completions[emptied :: len((*EMPTYING, *HARMLESS))]:
            assert completion["finish_reason"] == "error"
            assert completion["cause"]["kind"] == "dead_end"
            assert named in completion["cause"]["message"]
    others = [each for each in completions if each["finish_reason"] != "error"]
    assert [(each["text"], each["finish_reason"]) for each in others] == [("777", "stop")] * 2 * len(HARMLESS)


def test_a_stop_string_ends_a_text_where_it_is_complete(report: Mapping[str, Any]) -> None:
    (stopped,), (document,) = report["batches"][8]
    assert (stopped["text"], stopped["tokens"], stopped["finish_reason"]) == ("77;" * 4, 12, "stop")
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(document["text"]))


def test_causes_that_only_the_engine_knows_come_back(report: Mapping[str, Any]) -> None:
    ((broken,),), ((nobody,),) = report["batches"][5], report["batches"][6]
    assert broken["cause"]["kind"] == "invalid_spec"
    assert nobody["cause"]["kind"] == "unavailable"


def test_nothing_is_left(report: Mapping[str, Any]) -> None:
    assert report["left"] == 0


def test_it_schedules_as_vllm_would(report: Mapping[str, Any], request: pytest.FixtureRequest) -> None:
    is_asynchronous = request.node.callspec.params["report"]
    assert report["scheduler"][0] == ("AsyncHoldingScheduler" if is_asynchronous else "HoldingScheduler")
    assert ("AsyncScheduler" in report["scheduler"]) is is_asynchronous


def test_drafts_are_verified_and_taken_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    """vLLM finds drafts in the prompt, which the grammar refuses."""
    backends = ("xgrammar", "llguidance")
    batches = [[ask({"json": SCHEMA}, backend) for backend in backends]]
    batches += [[ask({"regex": "(77;)+"}, backend, **STOPPED) for backend in backends]]
    speculation = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}
    report = in_process(batches, cwd=tmp_path_factory.mktemp("vllm"), speculative_config=speculation)
    assert all(jsonschema_rs.is_valid(SCHEMA, json.loads(text)) for text in texts(report, 0))
    assert texts(report, 1) == ["77;" * 4] * len(backends)
    assert [completion["tokens"] for (completion,) in report["batches"][1]] == [12] * len(backends)
