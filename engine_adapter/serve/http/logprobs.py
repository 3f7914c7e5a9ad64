"""Log-probabilities as chats and as completions show them."""

from collections.abc import Iterable
from typing import Any, Final

import attrs

from engine_adapter.outcome import TokenLogprob
from structout.vocabulary import Vocabulary

LOWEST: Final = -9999.0
"""What stands for minus infinity, which JSON does not have, as in OpenAI's API."""


def _number(logprob: float) -> float:
    return max(logprob, LOWEST)


def _text(vocabulary: Vocabulary, token: int) -> str:
    return vocabulary.token(token).decode("utf-8", "replace")


def chat_logprobs(logprobs: Iterable[TokenLogprob], vocabulary: Vocabulary) -> dict[str, Any]:
    """``logprobs`` of a choice of a chat."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        return {
            "token": _text(vocabulary, token),
            "logprob": _number(logprob),
            "bytes": list(vocabulary.token(token)),
        }

    content = [
        {**entry(each.token_id, each.logprob), "top_logprobs": [entry(*other) for other in each.top]}
        for each in logprobs
    ]
    return {"content": content, "refusal": None}


@attrs.define
class CompletionLogprobs:
    """``logprobs`` of a choice of a completion, piece by piece; remembers where in the text it is."""

    vocabulary: Vocabulary
    offset: int = 0

    def of(self, logprobs: Iterable[TokenLogprob]) -> dict[str, Any]:
        """The next tokens. ``text_offset`` counts the characters of the tokens before, each decoded by itself."""
        result: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for each in logprobs:
            text = _text(self.vocabulary, each.token_id)
            result["tokens"].append(text)
            result["token_logprobs"].append(_number(each.logprob))
            top = {_text(self.vocabulary, token): _number(logprob) for token, logprob in each.top}
            result["top_logprobs"].append(top or None)
            result["text_offset"].append(self.offset)
            self.offset += len(text)
        return result
