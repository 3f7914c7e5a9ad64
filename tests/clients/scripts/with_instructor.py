"""What instructor sees of the server."""

from typing import Any, Literal

import instructor
from instructor.core.exceptions import InstructorRetryException
from observing import address, observe
from openai import OpenAI
from pydantic import BaseModel, Field

MESSAGES = [{"role": "user", "content": "Describe the animal that barks."}]
COMPACT = {"structured_outputs": {"disable_any_whitespace": True}}


class Owner(BaseModel):
    city: Literal["Lutz", "Nebelsbad"]


class Animal(BaseModel):
    """What no model writes unless it has to."""

    kind: Literal["dog", "cat"]
    legs: Literal[2, 4]
    owner: Owner


class Impossible(BaseModel):
    """A number that there is not."""

    number: int = Field(gt=3, lt=4)


def _asked(client: OpenAI, mode: instructor.Mode, model: type[BaseModel]) -> Any:
    patched = instructor.from_openai(client, mode=mode)
    return patched.chat.completions.create(
        model="smollm2",
        messages=MESSAGES,
        response_model=model,
        max_retries=0,
        max_tokens=120,
        seed=1,
        extra_body=COMPACT,
    )


def json_schema(client: OpenAI) -> Any:
    return _asked(client, instructor.Mode.JSON_SCHEMA, Animal).model_dump()


def tools(client: OpenAI) -> Any:
    return _asked(client, instructor.Mode.TOOLS, Animal).model_dump()


def refused(client: OpenAI) -> Any:
    """What a class comes to of which there is no instance, in both modes."""
    return [_refusal(client, mode) for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS)]


def _refusal(client: OpenAI, mode: instructor.Mode) -> Any:
    try:
        return repr(_asked(client, mode, Impossible))
    except InstructorRetryException as exc:
        return str(exc)


if __name__ == "__main__":
    client = OpenAI(base_url=f"{address()}/v1", api_key="none", max_retries=0, timeout=300)
    observe(client, [json_schema, tools, refused])
