"""The oracles: each takes a trial and raises `structout.fuzz.law.Broken` at the first breach of a law."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from structout.fuzz.law import Law
from structout.fuzz.oracles.batch import batch_is_single
from structout.fuzz.oracles.compiling import (
    compiles_the_same_again,
    threads_do_not_interfere,
)
from structout.fuzz.oracles.ids import ids_do_not_matter
from structout.fuzz.oracles.instances import instances_agree, what_is_held_stays
from structout.fuzz.oracles.language import (
    members_are_accepted,
    strangers_are_refused,
    tokens_do_not_matter,
    walks_end_in_the_language,
)
from structout.fuzz.oracles.loading import loads_as_saved
from structout.fuzz.oracles.masks import (
    fill_is_pure,
    forced_text_is_forced,
    mask_is_accept,
    something_can_follow,
)
from structout.fuzz.oracles.memory import nothing_is_left_behind
from structout.fuzz.oracles.state import (
    after_the_end,
    drafts_leave_no_trace,
    forks_are_independent,
    refused_tokens_change_nothing,
    rollback_between_accepts,
    rollback_undoes,
    sequences_are_independent,
    stop_tokens_end,
    windows_are_kept,
)
from structout.fuzz.trial import Trial

Oracle: TypeAlias = Callable[[Trial], None]

ORACLES: Final[Mapping[Law, tuple[Oracle, ...]]] = {
    Law.WRONG_REJECTION: (members_are_accepted,),
    Law.OVER_ACCEPTANCE: (strangers_are_refused, walks_end_in_the_language),
    Law.FILL_IS_PURE: (fill_is_pure,),
    Law.ROLLBACK: (rollback_undoes, rollback_between_accepts, windows_are_kept),
    Law.MASK_IS_ACCEPT: (mask_is_accept,),
    Law.TOKENIZATION: (tokens_do_not_matter,),
    Law.FORK: (forks_are_independent,),
    Law.ISOLATION: (sequences_are_independent,),
    Law.STOP_TOKENS: (stop_tokens_end,),
    Law.AFTER_END: (after_the_end,),
    Law.REFUSED_TOKEN: (refused_tokens_change_nothing,),
    Law.DRAFTS: (drafts_leave_no_trace,),
    Law.BATCH_FILL: (batch_is_single,),
    Law.FORCED_TEXT: (forced_text_is_forced,),
    Law.LIVENESS: (something_can_follow,),
    Law.DETERMINISM: (compiles_the_same_again, loads_as_saved),
    Law.TOKEN_IDS: (ids_do_not_matter,),
    Law.CACHE: (instances_agree,),
    Law.CONCURRENCY: (threads_do_not_interfere,),
    Law.LEAK: (nothing_is_left_behind, what_is_held_stays),
}
"""What looks for breaches of each law. An oracle may come upon a breach of another law, and then names that one."""

_ALSO: Final[Mapping[Law, tuple[Oracle, ...]]] = {Law.SERIALIZATION: (members_are_accepted, walks_end_in_the_language)}
"""What looks for a law beside its own."""
COSTLY: Final = frozenset({Law.CONCURRENCY, Law.LEAK, Law.TOKEN_IDS})
"""Laws that take too long to be looked for in every case."""


def laws_around(law: Law) -> frozenset[Law]:
    """The laws to look at so as to see every breach of one: that others' grammars changed those which are held is seen
    where leaks are looked for."""
    return frozenset({law, Law.LEAK} if law is Law.CACHE else {law})


def oracles_for(laws: Collection[Law]) -> list[Oracle]:
    """What looks for breaches of these laws, each once.

    Where they are all laws that any oracle may come upon, such as ROW, MASK_TIME or CRASH, it is all but the costly.
    """
    own = [oracle for law, oracles in ORACLES.items() if law in laws for oracle in oracles]
    own += [oracle for law, oracles in _ALSO.items() if law in laws for oracle in oracles]
    anywhere = [oracle for law, oracles in ORACLES.items() if law not in COSTLY for oracle in oracles]
    return list(dict.fromkeys(own or anywhere))
