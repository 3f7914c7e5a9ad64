"""Is the language the spec's? Members have to be accepted, strangers and what random walks end with judged."""

from structout.backend import Status
from structout.fuzz.case import Text
from structout.fuzz.judge import breach_of
from structout.fuzz.law import Law, broken
from structout.fuzz.probe import Probe
from structout.fuzz.tokenizations import as_bytes, greedy, tokenizations
from structout.fuzz.trial import Trial
from structout.spec import JsonObject, JsonSchema

UNSPECIFIED = frozenset({"number form"})
"""Notes of members that no serialization policy speaks of: whether 1 may be written 1e0."""
_LONG = 1000
"""Bytes of a member."""
WALKS = 3
"""Random walks to an end, for each case."""


def members_are_accepted(trial: Trial) -> None:
    """Every member, byte by byte and in longest tokens, through rows that allow each token, to a stop token; a long one
    in longest tokens only.

    That a value's plain text is refused is a wrong rejection; that another form is, which the serialization policy
    allows, is a breach of that policy.
    """
    for member in trial.case.members:
        data = member.text.encode()
        ways = (greedy,) if len(data) > _LONG else (as_bytes, greedy)
        for tokens in (way(trial.vocabulary, data) for way in ways):
            if tokens is not None and member.note not in UNSPECIFIED and not trial.may_refuse(member):
                _write(trial, member, tokens)


def _write(trial: Trial, member: Text, tokens: list[int]) -> None:
    probe = trial.probed.start(max_rollback=0)
    law = Law.WRONG_REJECTION if member.note == "plain" else Law.SERIALIZATION
    evidence = {"member": member.text, "written": member.note}
    for token in tokens:
        bits = probe.fill()
        if not bits[token] or probe.accept(token) is not Status.OK:
            what = trial.vocabulary.token(token).decode("utf-8", "backslashreplace")
            refuses = _class_of(what) if member.note == "plain" else ""
            message = f"a text of the language ({member.note}) cannot go on with {what!r}"
            broken(law, message, refuses=refuses, **evidence, **probe.where())
    if not probe.is_accepting:
        broken(law, f"a text of the language ({member.note}) does not count as complete", **evidence)


def _class_of(piece: str) -> str:
    """What sort of text is refused: not which digit, letter or word."""
    first = piece[:1]
    if first.isdigit():
        return "a digit"
    if first.isalpha():
        return "a letter" if first.isascii() else "a letter beyond ASCII"
    return "white space" if first.isspace() else repr(first)


def strangers_are_refused(trial: Trial) -> None:
    """No stranger is accepted to its end, unless a keyword on the way to what it violates is listed as not enforced, or
    it is a text of the schema without those that are."""
    for stranger in trial.case.strangers:
        data = stranger.text.encode()
        tokens = as_bytes(trial.vocabulary, data)
        if tokens is None or _is_excused(trial, data, stranger.note):
            continue
        probe = trial.probed.start()
        if probe.feed(tokens) == len(tokens) and probe.is_accepting:
            message = f"it accepts a text that {_fault(stranger)}"
            broken(Law.OVER_ACCEPTANCE, message, stranger=stranger.text, violates=stranger.note)


def _is_excused(trial: Trial, data: bytes, violates: str = "") -> bool:
    """Whether a text that is not of the language gets through because of what the grammar does not enforce."""
    if not trial.unenforced:
        return False
    path = trial.judge.violated(data) if trial.judge else ()
    if not trial.unenforced.isdisjoint((violates, *path)):
        return True
    return trial.loosened is not None and trial.loosened.decide(data) is not False


def _fault(stranger: Text) -> str:
    return "is not of the language" if stranger.note == "syntax" else f"violates {stranger.note!r}"


def walks_end_in_the_language(trial: Trial) -> None:
    """Random walks through the masks to a stop token: every text that one ends with is judged."""
    for _ in range(WALKS):
        probe = trial.probed.start()
        trial.walk(probe, trial.draw.choice((0, 1, 2, 4, 8, 16, 32)))
        trial.counts["walks"] += 1
        if trial.settle(probe):
            trial.counts["walks ended"] += 1
            _judge(trial, probe)


def _judge(trial: Trial, probe: Probe) -> None:
    judge, spec = trial.judge, trial.case.spec
    if judge is None:
        return
    if judge.decide(probe.text) is False and not _is_excused(trial, probe.text):
        message = "a walk through its masks ends with a text that is not of the language"
        violates = "".join(judge.violated(probe.text)[-1:])
        broken(Law.OVER_ACCEPTANCE, message, violates=violates, **probe.where())
    if isinstance(spec, JsonSchema | JsonObject) and (breach := breach_of(probe.text.decode(), spec.serialization)):
        broken(Law.SERIALIZATION, f"a walk through its masks ends with {breach}", **probe.where())


def tokens_do_not_matter(trial: Trial) -> None:
    """Texts and beginnings of texts, cut into tokens in several ways: accepted alike, with the same rows after them."""
    for data in _texts(trial):
        first: tuple[str, Probe, int] | None = None
        for name, tokens in tokenizations(trial.vocabulary, data, trial.draw):
            probe = trial.probed.start()
            count = probe.feed(tokens)
            if first is None:
                first = (name, probe, count)
                if count < len(tokens):
                    break
            elif count < len(tokens):
                message = f"it takes a text cut as {first[0]}, not cut as {name}"
                refused = trial.vocabulary.token(tokens[count])
                broken(Law.TOKENIZATION, message, refused=repr(refused), whole=repr(data), **probe.where())
            else:
                _compare(first[1], probe)


def _texts(trial: Trial) -> list[bytes]:
    """Members and what walks come to; of each the whole and a beginning that may end inside a character."""
    walked = [probe.text for probe in trial.states(3)]
    whole = [member.text.encode() for member in trial.case.members[:4]] + walked
    return [part for text in whole for part in (text, text[: trial.draw.randint(0, len(text))])]


def _compare(one: Probe, other: Probe) -> None:
    differing = (one.fill() != other.fill()).nonzero()[0].tolist()
    if differing or one.is_accepting is not other.is_accepting:
        message = "what may follow depends on how the text before was cut into tokens"
        broken(Law.TOKENIZATION, message, differing=differing[:8], other=other.tokens, **one.where())
