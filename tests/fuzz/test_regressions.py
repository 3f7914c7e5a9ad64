"""Faults that generated cases found in the backends, as small as they could be made: each is gone, and stays gone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from structout import ErrorKind, JsonSchema, Policy
from structout.fuzz import Child, Target
from structout.fuzz.faults import keywords_of
from structout.spec import spec_to_json

FAULTS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("regressions.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture(scope="module")
def children() -> Iterator[dict[str, Child]]:
    made = {backend: Child(Target(backend), vocabulary="bytes") for backend in {fault["backend"] for fault in FAULTS}}
    yield made
    for child in made.values():
        child.close()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['backend']}-{json.dumps(fault['schema'])}")
def test_it_stays_gone(children: dict[str, Child], fault: dict[str, Any]) -> None:
    """Under every policy the process lives; by default nothing wrong is taken, and what is kept out is listed."""
    schema = JsonSchema(json.dumps(fault["schema"]))
    assert len(keywords_of(schema)) <= 5
    answers = {}
    for policy in Policy:
        job = {"do": "accepts", "spec": spec_to_json(attrs.evolve(schema, policy=policy)), "texts": [fault["text"]]}
        answers[policy] = children[fault["backend"]].run(job, limit_s=60)
    sound, exact = answers[Policy.SOUND], answers[Policy.EXACT]
    match fault["direction"]:
        case "over_acceptance":
            assert sound.get("accepted") != [True]
            assert exact.get("accepted") != [True]
        case "wrong_rejection":
            assert "error" in sound or sound["accepted"] == [True] or sound["narrowed"]
            assert "error" in exact or exact["accepted"] == [True]
        case "wrong_refusal":
            assert sound.get("accepted") == [True]
        case "wrong_reason":
            assert "recursive" not in sound["error"]["message"]
        case "unlisted":
            assert fault["keyword"] in {keyword for _, keyword, _ in answers[Policy.BEST_EFFORT]["unenforced"]}
        case direction:
            assert direction == "crash"
    assert sound.get("error", {}).get("kind") != ErrorKind.BACKEND_FAILURE
