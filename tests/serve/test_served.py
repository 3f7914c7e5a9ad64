"""Prompts as a tokenizer and its chat template lay them out."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine_adapter.serve.served import TokenizerPrompts
from structout import Err, ErrorKind, Ok

TEMPLATE = """{%- for message in messages -%}
{%- if message.role == "king" -%}{{ raise_exception("there are no kings") }}{%- endif -%}
{%- if message.role == "fool" -%}{{ 1 / 0 }}{%- endif -%}
{{ message.role }}:{{ message.content }};
{%- endfor -%}
{%- for tool in tools or [] -%}{{ tool.name }};{%- endfor -%}
{%- if add_generation_prompt -%}bot:{%- endif -%}"""


def tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """A token for each byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    made: PreTrainedTokenizerFast = PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=template)  # type: ignore[no-untyped-call]
    return made


def prompts_of(made: PreTrainedTokenizerFast, most_bytes: int = 10_000) -> TokenizerPrompts:
    return TokenizerPrompts(made, most_bytes=most_bytes, most_messages=100)


def says(role: str, content: str = "hi") -> dict[str, Any]:
    return {"role": role, "content": content}


def test_a_chat_is_laid_out_with_its_tools_and_the_models_turn() -> None:
    made = tokenizer()
    laid_out = prompts_of(made).of_chat([says("system", "be"), says("user", "hé")], [{"name": "f"}])
    assert isinstance(laid_out, Ok)
    assert made.decode(list(laid_out.value)) == "system:be;user:hé;f;bot:"


def test_a_text_is_its_tokens() -> None:
    made = tokenizer()
    assert made.decode(list(prompts_of(made).of_text("hé").unwrap())) == "hé"


def test_a_model_without_a_template_says_so() -> None:
    refused = prompts_of(tokenizer(None)).of_chat([says("user")], None)
    assert isinstance(refused, Err)
    assert refused.error.kind is ErrorKind.UNSUPPORTED


@pytest.mark.parametrize(("role", "reason"), [("king", ": there are no kings"), ("fool", "")])
def test_what_a_template_refuses_is_said_and_what_is_wrong_with_it_is_not(role: str, reason: str) -> None:
    refused = prompts_of(tokenizer()).of_chat([says(role)], None)
    assert isinstance(refused, Err)
    assert refused.error.message == f"the model's chat template cannot lay out these messages{reason}"
    assert refused.error.detail


def test_threads_share_a_tokenizer_also_where_using_it_changes_it() -> None:
    """One that comes with truncation and padding is rid of both when it is first used: here by all at once."""
    made, alone = tokenizer(), prompts_of(tokenizer(), 10**6)
    made.backend_tokenizer.enable_truncation(4)
    made.backend_tokenizer.enable_padding(length=9)
    prompts, begin = prompts_of(made, 10**6), threading.Barrier(8)
    texts = [f"text {number} " * 5_000 for number in range(8)]

    def ask(text: str) -> tuple[object, object]:
        begin.wait()
        return prompts.of_text(text), prompts.of_chat([says("user", text)], None)

    with ThreadPoolExecutor(8) as pool:
        several = list(pool.map(ask, texts))
    assert several == [(alone.of_text(text), alone.of_chat([says("user", text)], None)) for text in texts]


def test_a_text_that_no_prompt_could_hold_is_refused_before_it_is_cut_into_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tokenizer()
    prompts = TokenizerPrompts(made, most_bytes=20, most_messages=100)
    assert isinstance(prompts.of_text("é" * 10), Ok)
    assert isinstance(prompts.of_chat([says("user", "é" * 5)], None), Ok)
    monkeypatch.setattr(made, "encode", None)
    for refused in (prompts.of_text("é" * 11), prompts.of_chat([says("user", "é" * 9)], None)):
        assert isinstance(refused, Err)
        assert (refused.error.kind, refused.error.keyword) == (ErrorKind.INVALID_SPEC, "prompt")


def test_a_conversation_that_no_prompt_could_hold_is_refused_before_it_is_laid_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tokenizer()
    prompts = TokenizerPrompts(made, most_bytes=10_000, most_messages=2)
    assert isinstance(prompts.of_chat([says("user", "")] * 2, None), Ok)
    monkeypatch.setattr(made, "apply_chat_template", None)
    refused = prompts.of_chat([says("user", "")] * 3, None)
    assert isinstance(refused, Err)
    assert (refused.error.kind, refused.error.message) == (
        ErrorKind.INVALID_SPEC,
        "the prompt has 3 messages; there can be no more than 2",
    )
