"""A model that is served: what every endpoint needs of it, whatever its protocol."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from engine_adapter.embedded.local import Local
from engine_adapter.serve.reading import Reading
from engine_adapter.serve.running import RunningEngine
from structout.compile import CompileService
from structout.errors import ErrorKind, Fault, GrammarError, describe_exception
from structout.parsing.problems import quote
from structout.result import Err, Ok, Result
from structout.vocabulary import Vocabulary

Message: TypeAlias = Mapping[str, Any]
"""``role``, ``content`` (text) and what else a chat template may know: ``name``, ``tool_calls``, ``tool_call_id``."""

_NO_TEMPLATE: Final = GrammarError(
    kind=ErrorKind.UNSUPPORTED,
    message="the model has no chat template",
    hint="send the whole prompt to /v1/completions",
)


class Prompts(Protocol):
    """Turns what clients send into token ids. Safe to use from any thread; may take long enough to want one."""

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        """The token ids of a text, or why it has too many."""
        ...

    def of_chat(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
    ) -> Result[tuple[int, ...], GrammarError]:
        """The token ids of a conversation in which the model is to answer, or why it cannot be laid out."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class ServedModel:
    """A model and the engine that runs it.

    Attributes:
        name: what clients call it.
        vocabulary: its tokens.
        prompts: its tokenizer and chat template.
        max_len: most tokens of prompt and answer together.
        running: the engine.
        service: makes grammars for whoever tries one on the page; None if nobody can.
        reading: where requests are read.
    """

    name: str
    vocabulary: Vocabulary
    prompts: Prompts
    max_len: int
    running: RunningEngine
    service: CompileService | None = None
    reading: Reading = attrs.field(factory=Reading)


def unknown_model(name: str, hint: str) -> GrammarError:
    """The error of a request for a model that is not served here; the hint says what to name instead."""
    return GrammarError(
        kind=ErrorKind.UNAVAILABLE,
        fault=Fault.CALLER,
        message=f"there is no model {quote(name)} here",
        pointer="/model",
        keyword="model",
        hint=hint,
    )


def served_locally(local: Local) -> ServedModel:
    """A model that was opened in this process, by the name that it was asked for by. Its engine is not started yet."""
    return ServedModel(
        name=local.loaded.name,
        vocabulary=local.vocabulary,
        prompts=TokenizerPrompts(
            local.loaded.tokenizer, most_bytes=_most_bytes(local), most_messages=local.loaded.runner.max_len
        ),
        max_len=local.loaded.runner.max_len,
        running=RunningEngine(local.engine),
        service=local.service,
    )


def _most_bytes(local: Local) -> int:
    """What a prompt has at most, were each of its tokens the longest that there is."""
    return local.loaded.runner.max_len * max(map(len, local.vocabulary.tokens()))


class TokenizerPrompts:
    """`Prompts` by a fast Hugging Face tokenizer, which threads may share, and the chat template that comes with it.

    Args:
        tokenizer: the tokenizer.
        most_bytes: a text that has more is refused without a look at its tokens, which would take seconds.
        most_messages: a conversation that has more is refused without being laid out, which would, too.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, most_bytes: int, most_messages: int) -> None:
        self._tokenizer = tokenizer
        self._most_bytes = most_bytes
        self._most_messages = most_messages

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        return self._encoded(text, add_special_tokens=True)

    def of_chat(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
    ) -> Result[tuple[int, ...], GrammarError]:
        if not self._tokenizer.chat_template:
            return Err(_NO_TEMPLATE)
        if len(messages) > self._most_messages:
            return Err(_too_long(f"{len(messages):,} messages", self._most_messages))
        try:
            text = self._laid_out(messages, tools)
        except Exception as exc:  # a template is a program by whoever made the model
            return Err(_refused_by_template(exc))
        return self._encoded(text, add_special_tokens=False)

    def _laid_out(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> str:
        text = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] if tools else None,
            add_generation_prompt=True,
            tokenize=False,
        )
        return str(text)

    def _encoded(self, text: str, *, add_special_tokens: bool) -> Result[tuple[int, ...], GrammarError]:
        if (size := len(text.encode("utf-8", "replace"))) > self._most_bytes:
            return Err(_too_long(f"{size:,} bytes", self._most_bytes))
        return Ok(tuple(self._tokenizer.encode(text, add_special_tokens=add_special_tokens)))


def _too_long(has: str, most: int) -> GrammarError:
    message = f"the prompt has {has}; there can be no more than {most:,}"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword="prompt")


def _refused_by_template(exc: Exception) -> GrammarError:
    """What a template itself raises is written for whoever wrote the messages; what else goes wrong in it is not."""
    reason = f": {exc.message}" if isinstance(exc, TemplateError) and exc.message else ""
    message = f"the model's chat template cannot lay out these messages{reason}"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, detail=describe_exception(exc))
