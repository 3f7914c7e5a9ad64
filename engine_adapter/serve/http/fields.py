"""The fields of a request that are not supported, or do not matter: the one place where they are listed.

A field that would change the answer is refused by name unless its value is one that changes nothing. What is not
listed anywhere passes, as servers of this API let it, unless it looks like a field that is known.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from structout.errors import ErrorKind, GrammarError
from structout.parsing.fields import CARRIERS, KNOWN_FIELDS
from structout.parsing.problems import child, closest, quote

UNSUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        # OpenAI's
        "audio": (),
        "best_of": (1,),
        "echo": (False,),
        "frequency_penalty": (0,),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "logit_bias": ({},),
        "modalities": (["text"],),
        "prediction": (),
        "presence_penalty": (0,),
        "reasoning_effort": ("none",),
        "suffix": ("",),
        "verbosity": ("medium",),
        "web_search_options": (),
        # vLLM's
        "add_generation_prompt": (True,),
        "allowed_token_ids": (),
        "bad_words": ([],),
        "chat_template": (),
        "chat_template_kwargs": ({},),
        "continue_final_message": (False,),
        "documents": ([],),
        "ignore_eos": (False,),
        "include_stop_str_in_output": (False,),
        "length_penalty": (1,),
        "logits_processors": ([],),
        "prompt_logprobs": (),
        "repetition_penalty": (1,),
        "skip_special_tokens": (True,),
        "stop_token_ids": ([],),
        "truncate_prompt_tokens": (),
        "use_beam_search": (False,),
    }
)
"""By name, the values that change nothing; null never does."""

HARMLESS: Final = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "priority",
        "prompt_cache_key",
        "prompt_cache_retention",
        "request_id",
        "safety_identifier",
        "service_tier",
        "store",
        "tools",
        "user",
    }
)
"""Fields that change no answer, or that `structout.parsing` reads, which are not misspelt ones."""

_CUTOFF: Final = 0.85
"""How alike (`difflib`) an unknown name has to be to a supported one to be taken for it misspelt."""


def refused_field(fields: Mapping[str, Any], supported: tuple[str, ...]) -> GrammarError | None:
    """The first field that cannot be passed over; None if there is none. ``supported`` are those that are read."""
    for name, value in fields.items():
        if value is None or name in supported or name in HARMLESS or name in KNOWN_FIELDS or name in CARRIERS:
            continue
        if name in UNSUPPORTED:
            if value not in UNSUPPORTED[name]:
                return _unsupported(name)
        elif meant := closest(name, supported, _CUTOFF):
            message = f"the request has no field {quote(name)}; did you mean {quote(meant)}?"
            return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, pointer=child("", name), keyword=meant)
    return None


def _unsupported(name: str) -> GrammarError:
    usual = UNSUPPORTED[name]
    hint = "leave it out" + (f", or set it to {usual[0]!r}" if usual and isinstance(usual[0], int) else "")
    message = f"{name} is not supported"
    return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, pointer=child("", name), keyword=name, hint=hint)
