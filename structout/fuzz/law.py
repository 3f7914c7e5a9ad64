"""The laws that backends have to keep, by name, and what a broken one is reported as."""

import enum
from collections.abc import Mapping
from typing import Any, NoReturn

import attrs


class Law(enum.StrEnum):
    """Stable ids of the oracles; each says what must hold."""

    RESULT_DISCIPLINE = "result_discipline"
    OVER_ACCEPTANCE = "over_acceptance"
    WRONG_REJECTION = "wrong_rejection"
    SERIALIZATION = "serialization"
    MASK_IS_ACCEPT = "mask_is_accept"
    ROW = "row"
    FILL_IS_PURE = "fill_is_pure"
    TOKENIZATION = "tokenization"
    ROLLBACK = "rollback"
    FORK = "fork"
    ISOLATION = "isolation"
    DETERMINISM = "determinism"
    DRAFTS = "drafts"
    STOP_TOKENS = "stop_tokens"
    AFTER_END = "after_end"
    REFUSED_TOKEN = "refused_token"
    BATCH_FILL = "batch_fill"
    FORCED_TEXT = "forced_text"
    LIVENESS = "liveness"
    MASK_DIFFERENCE = "mask_difference"
    TOKEN_IDS = "token_ids"
    CACHE = "cache"
    CONCURRENCY = "concurrency"
    LEAK = "leak"
    MASK_TIME = "mask_time"
    MEMORY = "memory"
    CRASH = "crash"
    HANG = "hang"

    @property
    def meaning(self) -> str:
        """What must hold, in a sentence."""
        return _MEANINGS[self]


_MEANINGS: Mapping[Law, str] = {
    Law.RESULT_DISCIPLINE: "Calls return what the protocols say and raise nothing; errors say what to do and show "
    "nothing of the inside; a valid spec is not called invalid.",
    Law.OVER_ACCEPTANCE: "What ends with a stop token satisfies the spec, but for what is listed as unenforced.",
    Law.WRONG_REJECTION: "Every text of the language can be written, unless the grammar lists what it narrows.",
    Law.SERIALIZATION: "Texts are written as the spec's serialization policy says, and in all the ways that it allows.",
    Law.MASK_IS_ACCEPT: "A token is accepted exactly where its bit is set.",
    Law.ROW: "A fill writes the whole row and nothing beside it; padding, holes and control tokens but stops are 0.",
    Law.FILL_IS_PURE: "Filling does not change the state: a second fill gives the same row.",
    Law.TOKENIZATION: "How a text is cut into tokens changes neither whether it is accepted nor what may follow.",
    Law.ROLLBACK: "Undoing tokens leads back to the state before them, a stop token included.",
    Law.FORK: "A fork is in the same state, and neither sees what becomes of the other.",
    Law.ISOLATION: "Sequences of one grammar share no state, and each starts at the beginning.",
    Law.DETERMINISM: "The same tokens under the same spec give the same rows, in every sequence and every compile, "
    "and in what was saved and loaded again.",
    Law.DRAFTS: "Verifying drafts gives the rows that accepting them one by one would, and leaves the state as it was.",
    Law.STOP_TOKENS: "Exactly the request's stop tokens end a sequence, exactly where its text is complete.",
    Law.AFTER_END: "After the stop token there is only TERMINATED, and the text stays complete.",
    Law.REFUSED_TOKEN: "A refused token, a stop token too early included, changes nothing.",
    Law.BATCH_FILL: "Filling rows in one call gives the rows and statuses that filling them one by one would.",
    Law.FORCED_TEXT: "Forced text is accepted, and no text that goes on otherwise, or ends, is allowed.",
    Law.LIVENESS: "From every state that can be reached some token can follow, or the text is complete.",
    Law.MASK_DIFFERENCE: "Two backends that are both exact allow the same tokens in the same state.",
    Law.TOKEN_IDS: "Whether a token may follow depends on its bytes, not on its id nor on others of the same bytes.",
    Law.CACHE: "A spec gets its own grammar, whatever was compiled before and however similar.",
    Law.CONCURRENCY: "Compiling and matching in several threads gives what one thread gives.",
    Law.LEAK: "Sequences and grammars that are gone leave no memory behind, no open file and no thread.",
    Law.MASK_TIME: "A row is filled within its budget.",
    Law.MEMORY: "Compiling and matching stay within the memory limit.",
    Law.CRASH: "No spec and no token ends the process.",
    Law.HANG: "No call runs without end.",
}


def _encodable(text: str) -> str:
    """With escapes for halves of surrogate pairs, which plugins may put into what they raise and no file can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _encodable_values(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _encodable(value) if isinstance(value, str) else value for name, value in evidence.items()}


@attrs.frozen
class Violation:
    """A law that a backend broke.

    Attributes:
        law: which.
        message: what happened, in a sentence.
        evidence: JSON-able details: texts, tokens, statuses.
    """

    law: Law
    message: str = attrs.field(converter=_encodable)
    evidence: Mapping[str, Any] = attrs.field(factory=dict, converter=_encodable_values)

    def to_json(self) -> dict[str, Any]:
        return {"law": self.law.value, "message": self.message, "evidence": dict(self.evidence)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Violation":
        """The inverse of `to_json`."""
        return cls(Law(data["law"]), data["message"], data["evidence"])


class Broken(Exception):
    """Raised inside an oracle at the first thing that breaks a law; never leaves this package."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.message)
        self.violation = violation


def broken(law: Law, message: str, **evidence: Any) -> NoReturn:
    """Ends an oracle: the law is broken."""
    raise Broken(Violation(law, message, evidence))
