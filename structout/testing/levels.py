"""What the kit looks at, in levels: the first is what any backend has to pass, the others depend on what it can do."""

import enum
from collections.abc import Mapping
from typing import Final

from structout.fuzz.law import Law


class Level(enum.StrEnum):
    """CORE: one sequence, whatever the language. LANGUAGE: the language is the spec's. BATCH: rows of several sequences
    in one call. ROLLBACK: undoing, copying, drafts. CONCURRENCY: several threads. RESOURCES: time, memory, and that the
    process lives."""

    CORE = "core"
    LANGUAGE = "language"
    BATCH = "batch"
    ROLLBACK = "rollback"
    CONCURRENCY = "concurrency"
    RESOURCES = "resources"


LAWS: Final[Mapping[Level, tuple[Law, ...]]] = {
    Level.CORE: (
        Law.RESULT_DISCIPLINE,
        Law.ROW,
        Law.MASK_IS_ACCEPT,
        Law.FILL_IS_PURE,
        Law.STOP_TOKENS,
        Law.AFTER_END,
        Law.REFUSED_TOKEN,
        Law.TOKENIZATION,
        Law.TOKEN_IDS,
        Law.ISOLATION,
        Law.DETERMINISM,
        Law.LIVENESS,
        Law.CACHE,
    ),
    Level.LANGUAGE: (Law.WRONG_REJECTION, Law.OVER_ACCEPTANCE, Law.SERIALIZATION),
    Level.BATCH: (Law.BATCH_FILL,),
    Level.ROLLBACK: (Law.ROLLBACK, Law.FORK, Law.DRAFTS, Law.FORCED_TEXT),
    Level.CONCURRENCY: (Law.CONCURRENCY,),
    Level.RESOURCES: (Law.MASK_TIME, Law.LEAK, Law.MEMORY, Law.CRASH, Law.HANG),
}
"""Every law that one backend can be held to."""

PROTECTS: Final[Mapping[Law, str]] = {
    Law.RESULT_DISCIPLINE: "a request that ends with a 500 that says nothing, or shows internals to its client",
    Law.ROW: "tokens that stand for nothing, and masks that were left over from another request",
    Law.MASK_IS_ACCEPT: "a request that fails because the token that its mask allowed is refused",
    Law.FILL_IS_PURE: "output that depends on how often the engine looks",
    Law.STOP_TOKENS: "half a document that is reported as finished, and one that never ends",
    Law.AFTER_END: "text behind the end of a document",
    Law.REFUSED_TOKEN: "a sequence that one bad draft spoils for good",
    Law.TOKENIZATION: "a constraint that holds for some spellings in tokens only",
    Law.TOKEN_IDS: "words that a model cannot write because of their place in its vocabulary",
    Law.ISOLATION: "one request's text deciding what another may write",
    Law.DETERMINISM: "ranks that disagree, and answers that cannot be repeated",
    Law.LIVENESS: "an all-zero row, which becomes NaN and kills a whole engine",
    Law.CACHE: "a request that is constrained by somebody else's schema",
    Law.WRONG_REJECTION: "answers that the model cannot give although the schema allows them",
    Law.OVER_ACCEPTANCE: "invalid documents that arrive with status 200",
    Law.SERIALIZATION: "clients that rely on the promised form of the text",
    Law.BATCH_FILL: "masks that end up in another request's row",
    Law.ROLLBACK: "speculative decoding that leaves the grammar elsewhere than the text",
    Law.FORK: "samples of one prompt that disturb each other",
    Law.DRAFTS: "drafts that are verified against wrong masks",
    Law.FORCED_TEXT: "text that is appended although the model had a choice",
    Law.CONCURRENCY: "faults that only show under load",
    Law.MASK_TIME: "a step of everybody that waits for one request's mask",
    Law.LEAK: "a server that has to be restarted every night",
    Law.MEMORY: "one schema that takes the whole machine",
    Law.CRASH: "one schema that ends every request",
    Law.HANG: "one schema that stops every request",
}
"""What happens in a serving engine where a law is broken."""
