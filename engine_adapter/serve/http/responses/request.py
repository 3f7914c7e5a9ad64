"""The fields that are read of a request for a response, and their types."""

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from engine_adapter.serve.http.requests import GenerationRequest, Strict

MAX_METADATA: Final = 16
"""Most members of ``metadata``, as in OpenAI's API."""


class InputText(Strict):
    """A part of a message: what somebody says to the model, or what it said itself."""

    type: Literal["input_text", "output_text"]
    text: str


class InputMessage(Strict):
    """One item of the input; of those that OpenAI's API knows, messages are supported."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: list[InputText] = Field(fail_fast=True)

    @field_validator("content", mode="before")
    @classmethod
    def _in_parts(cls, value: Any) -> Any:
        if not isinstance(value, str | list):
            raise PydanticCustomError("content", "a text or a list of parts is needed")
        return [InputText(type="input_text", text=value)] if isinstance(value, str) else value

    def for_template(self) -> dict[str, Any]:
        """The message as chat templates know it."""
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": "".join(part.text for part in self.content)}


class TextOptions(Strict):
    """``text``. Its format is read by `structout.parsing`; a misspelt one must not vanish."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: dict[str, Any] | None = None
    verbosity: Literal["medium"] | None = None


class FunctionTool(Strict):
    """A function that may be called. Tools of other types would be the server's to run."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def for_template(self) -> dict[str, Any]:
        """The tool as chat templates know it: in the form of chat completions."""
        given = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": {name: value for name, value in given.items() if value is not None}}


class ResponseRequest(GenerationRequest):
    input: list[InputMessage] = Field(min_length=1, fail_fast=True)
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    tools: list[FunctionTool] | None = Field(None, fail_fast=True)

    @field_validator("metadata", mode="before")
    @classmethod
    def _of_few_members(cls, value: Any) -> Any:
        """Counted first: each member that is wrong would be described."""
        if isinstance(value, dict) and len(value) > MAX_METADATA:
            raise PydanticCustomError("metadata", f"at most {MAX_METADATA} members are allowed")
        return value

    @field_validator("input", mode="before")
    @classmethod
    def _as_messages(cls, value: Any) -> Any:
        if not isinstance(value, str | list):
            raise PydanticCustomError("input", "a text or a list of messages is needed")
        return [{"role": "user", "content": value}] if isinstance(value, str) else value
