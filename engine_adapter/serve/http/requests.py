"""The fields that are read of a request, and their types. Ranges are checked by whoever uses the value.

Of a list, the first wrong item ends the reading (``fail_fast``): of a million, each would be described.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

MAX_N: Final = 128
"""Most answers to one request, as in OpenAI's API."""


class Strict(BaseModel):
    """Takes no text for a number; leaves alone what it does not know."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class StreamOptions(Strict):
    include_usage: bool | None = None


class ModelRequest(Strict):
    """Asks something of a model; of the one that is served, if it names none."""

    model: str | None = None


class GenerationRequest(ModelRequest):
    """What all that generates has in common. ``seed``, ``top_k``, ``min_p``, ``min_tokens``, ``ignore_eos``, the
    penalties and ``logit_bias`` are extensions where OpenAI's API does not have them."""

    stream: bool | None = None
    min_tokens: int | None = Field(None, ge=0)
    ignore_eos: bool | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None


class ChoicesRequest(GenerationRequest):
    """What chats and completions have in common."""

    n: int | None = Field(None, ge=1, le=MAX_N)
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    stop: list[str] | None = Field(None, fail_fast=True)

    @property
    def has_usage(self) -> bool:
        """Whether a stream is to end with the counts of tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str | list):
            raise PydanticCustomError("stop", "a text or a list of texts is needed")
        return [value] if isinstance(value, str) else value


class TextPart(Strict):
    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """One message. What a template may know besides is kept."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: list[TextPart] | None = Field(None, fail_fast=True)

    @field_validator("content", mode="before")
    @classmethod
    def _in_parts(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str | list):
            raise PydanticCustomError("content", "a text or a list of parts is needed")
        return [TextPart(type="text", text=value)] if isinstance(value, str) else value

    def for_template(self) -> dict[str, Any]:
        """The message as chat templates know it: its content one text, a developer's message one of the system."""
        content = "".join(part.text for part in self.content or ())
        role = "system" if self.role == "developer" else self.role
        return {**(self.model_extra or {}), "role": role, "content": content}


class ChatRequest(ChoicesRequest):
    messages: list[ChatMessage] = Field(min_length=1, fail_fast=True)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = Field(None, fail_fast=True)


def _text_or_tokens(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, list) and all(type(token) is int for token in value)):
        return value
    raise PydanticCustomError("prompt", "a text or a list of token ids is needed")


Prompt = Annotated[str | list[int], BeforeValidator(_text_or_tokens)]
"""What a model goes on from, or embeds."""


class CompletionRequest(ChoicesRequest):
    prompt: Prompt
    logprobs: int | None = None

    @field_validator("prompt", mode="before")
    @classmethod
    def _only_one(cls, value: Any) -> Any:
        """A list of one prompt is that prompt."""
        if isinstance(value, list) and value and isinstance(value[0], str | list):
            if len(value) > 1:
                raise PydanticCustomError("prompts", "several prompts in one request are not supported: send one each")
            return value[0]
        return value
