"""The stubs of ``smg-grpc-proto``, the standard health service, and reflection."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from engine_adapter.embedded.pretrained import packaged_folder
from tests.clients.environments import Seen, needs, seen_by
from tests.serve.process import ServeProcess

pytestmark = [pytest.mark.clients, pytest.mark.model, needs("smg")]

SERVICES: Final = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
    "vllm.Inference",
    "vllm.grpc.engine.VllmEngine",
]


@pytest.fixture(scope="module")
def seen(server: ServeProcess, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return seen_by("smg", server.grpc_address, tmp_path_factory.mktemp("smg"))


def text_of(token_ids: Sequence[int]) -> str:
    """This dialect knows token ids only; to make a text of them is the client's part."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(packaged_folder())
    return str(tokenizer.decode(list(token_ids), skip_special_tokens=True))


def completed(messages: Sequence[Any], index: int = 0) -> Any:
    """The last word on a sample, which the chunks before it agree with."""
    chunks = [each["chunk"] for each in messages if "chunk" in each and each["chunk"]["index"] == index]
    [complete] = [each["complete"] for each in messages if "complete" in each and each["complete"]["index"] == index]
    assert chunks, "nothing was streamed"
    assert [token for chunk in chunks for token in chunk["token_ids"]] == complete["output_ids"]
    return complete


def test_the_model_is_described(seen: Seen) -> None:
    assert seen["info"]["healthy"]
    model = seen["info"]["model"]
    assert model["served_model_name"] == "smollm2"
    assert model["is_generation"]
    assert model["vocab_size"] == 49152
    assert model["max_context_length"] > 0
    assert model["eos_token_ids"]


def test_the_standard_health_service_knows_all_services(seen: Seen) -> None:
    assert seen["health"] == ["SERVING"] * 3


def test_each_kind_of_constraint(seen: Seen) -> None:
    texts = {name: text_of(completed(messages)["output_ids"]) for name, messages in seen["generate"].items()}
    answer = json.loads(texts["json_schema"])
    assert len(answer) == 2
    assert set(answer) <= {"Lutz", "Nebelsbad"}
    assert re.fullmatch("[0-9]{3}-[a-f]{2}", texts["regex"])
    assert texts["choice"] in ("Zubrowka", "Lutz")


def test_an_answer_without_a_constraint_has_its_length_and_log_probabilities(seen: Seen) -> None:
    complete = completed(seen["generate"]["none"])
    assert complete["finish_reason"] == "length"
    assert complete["completion_tokens"] == len(complete["output_ids"]) == 5
    assert complete["output_logprobs"]["token_ids"] == complete["output_ids"]


def test_three_samples(seen: Seen) -> None:
    answers = [completed(seen["three"], index)["output_ids"] for index in range(3)]
    assert len(set(map(tuple, answers))) == 3


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("schema", "INVALID_ARGUMENT", "intger"),
        ("field", "INVALID_ARGUMENT", "prompt_logprobs"),
        ("prompt", "INVALID_ARGUMENT", "no prompt"),
        ("embed", "UNIMPLEMENTED", "Embed"),
    ],
)
def test_a_call_that_cannot_be_served_says_why(seen: Seen, what: str, code: str, says: str) -> None:
    error = seen["errors"][what]
    assert error["code"] == code
    assert says in error["details"]


def test_an_abort_ends_a_call_that_is_under_way(seen: Seen) -> None:
    first, last = seen["abort"]
    assert first["chunk"]["token_ids"]
    assert last["complete"]["finish_reason"] == "abort"
    assert len(last["complete"]["output_ids"]) < 1500


def test_reflection_is_enough_to_call_the_other_dialect(seen: Seen) -> None:
    assert seen["reflected"]["services"] == SERVICES
    assert seen["reflected"]["reply"]["outputs"]["text"] in ("Zubrowka", "Lutz")
