"""Stand-ins for vLLM's objects: what the bridge reads of them, and nothing else."""

from typing import Any

import attrs
import numpy as np


@attrs.define
class StructuredOutputs:
    """As vLLM's ``StructuredOutputsParams``."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False

    def all_constraints_none(self) -> bool:
        constraints = (self.json, self.regex, self.choice, self.grammar, self.json_object, self.structural_tag)
        return all(each is None for each in constraints)


@attrs.define
class Params:
    """As vLLM's ``SamplingParams``."""

    structured_outputs: StructuredOutputs | None = None
    extra_args: dict[str, Any] | None = None
    all_stop_token_ids: set[int] = attrs.field(factory=set)
    stop: list[str] = attrs.field(factory=list)
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    allowed_token_ids: list[int] | None = None
    bad_words_token_ids: list[list[int]] | None = None


def params(extra_args: dict[str, Any] | None = None, **constraint: Any) -> Params:
    return Params(StructuredOutputs(**constraint), extra_args)


@attrs.define
class Tensor:
    """As a torch.Tensor on the CPU."""

    rows: np.ndarray[Any, np.dtype[np.int32]]

    def numpy(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        return self.rows


RUBBISH = 0x5A5A5A5A


def bitmask(rows: int, width: int) -> Tensor:
    return Tensor(np.full((rows, width), RUBBISH, np.int32))
