"""Which fields of vLLM's requests would be taken for a misspelt constraint. A script: run it with vLLM's Python.

The last line that it prints is a list of JSON; every name in it is a request that would be refused without a reason.
"""

import json

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

from engine_adapter.vllm.door import options
from structout.result import Err

FIELDS = {name for each in (ChatCompletionRequest, CompletionRequest, ResponsesRequest) for name in each.model_fields}
READ = {"response_format", "structured_outputs", "tool_choice"}


def is_refused(name: str) -> bool:
    return isinstance(options(json.dumps({name: 1}).encode()), Err)


if __name__ == "__main__":
    print(json.dumps(sorted(name for name in FIELDS - READ if is_refused(name))))
