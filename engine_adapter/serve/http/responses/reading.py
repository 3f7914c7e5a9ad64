"""From the fields of a request for a response to what is asked."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from engine_adapter.serve.http.asking import Asked, JsonObject, Wanted, asked, read_for
from engine_adapter.serve.http.body import flattened
from engine_adapter.serve.http.calls import forced_by
from engine_adapter.serve.http.responses.form import ResponseForm
from engine_adapter.serve.http.responses.request import ResponseRequest, TextOptions
from engine_adapter.serve.served import ServedModel
from structout.errors import GrammarError
from structout.result import Err, Ok, Result

_PLACES: Final = {"prompt": "/input", "max_tokens": "/max_output_tokens"}


def read_response(body: Mapping[str, Any], served: ServedModel, request_id: str) -> Result[Asked, GrammarError]:
    """What a response's body asks for."""
    match read_for(served, body, ResponseRequest):
        case Err() as failed:
            return failed
        case Ok(fields):
            pass
    tools = [tool.for_template() for tool in fields.tools or ()]
    match served.prompts.of_chat(_messages(fields), tools):
        case Err(refused):
            return Err(attrs.evolve(refused, pointer="/input"))
        case Ok(prompt):
            pass
    wanted = Wanted(
        prompt=prompt,
        max_tokens=fields.max_output_tokens or served.max_len,
        form=ResponseForm(forced=forced_by(body), settings=_settings(fields, flattened(body))),
        places=_PLACES,
    )
    return asked(body, fields, wanted, served, request_id)


def _messages(fields: ResponseRequest) -> list[JsonObject]:
    """The conversation; what the instructions say comes first, as the system."""
    instructions = [] if fields.instructions is None else [{"role": "system", "content": fields.instructions}]
    return instructions + [message.for_template() for message in fields.input]


def _settings(fields: ResponseRequest, given: Mapping[str, Any]) -> JsonObject:
    """What a reply says again of the request, and what it says for what the request left out."""
    text = fields.text or TextOptions()
    return {
        "background": False,
        "instructions": fields.instructions,
        "max_output_tokens": fields.max_output_tokens,
        "metadata": fields.metadata or {},
        "parallel_tool_calls": fields.parallel_tool_calls is not False,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0 if fields.temperature is None else fields.temperature,
        "text": {"format": {"type": "text"}, **{name: value for name, value in text if value is not None}},
        "tool_choice": given.get("tool_choice") or "auto",
        "tools": [tool.model_dump() for tool in fields.tools or ()],
        "top_p": 1.0 if fields.top_p is None else fields.top_p,
        "truncation": "disabled",
    }
