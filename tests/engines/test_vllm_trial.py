"""The waist inside a real vLLM: its masks and its drafts go through structout's constraints.

What is tried is `tests/trials/vllm_trial.py`, in the Python that STRUCTOUT_VLLM_PYTHON names.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from engine_adapter.embedded.pretrained import packaged_folder

pytestmark = [pytest.mark.engines, pytest.mark.model]

ROOT = Path(__file__).parents[2]
LIMIT_S = 480
"""A guard against a hang: it is about a minute of work, most of it imports and the loading of the model."""

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Lutz", "Nebelsbad"]}, "country": {"const": "Zubrowka"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}
"""No model writes these names unless it has to."""

REFUSED = {"type": "object", "properties": {"city": {"type": "string", "not": {"const": "Lutz"}}}}
"""A schema that vLLM lets in and xgrammar cannot enforce."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the script printed for both schemas, generated in one batch."""
    python = os.environ["STRUCTOUT_VLLM_PYTHON"]
    checkout = os.pathsep.join([str(ROOT), str(ROOT / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])])
    finished = subprocess.run(
        [python, str(ROOT / "tests/trials/vllm_trial.py"), str(packaged_folder())],
        input=json.dumps([SCHEMA, REFUSED]),
        env={**os.environ, "PYTHONPATH": checkout},
        cwd=tmp_path_factory.mktemp("vllm"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    printed: Mapping[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return printed


def test_the_answer_is_an_instance_of_its_schema(report: Mapping[str, Any]) -> None:
    answer = report["outputs"][0]
    assert answer["finish_reason"] == "stop"
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(answer["text"]))


def test_every_token_was_masked_by_a_constraint(report: Mapping[str, Any]) -> None:
    assert report["calls"]["filled"] >= report["outputs"][0]["tokens"] > 0


def test_drafts_were_checked_and_taken_back(report: Mapping[str, Any]) -> None:
    assert report["calls"]["drafts"] > 0
    assert report["calls"]["rolled_back"] > 0


def test_vllm_alone_loses_the_cause_of_a_refused_grammar(report: Mapping[str, Any]) -> None:
    assert report["outputs"][1] == {"text": "", "tokens": 0, "finish_reason": "error", "stop_reason": None}
