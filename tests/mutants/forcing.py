"""Faults of what a matcher calls forced."""

from structout.backend import SupportsForcedText
from tests.mutants.wrapping import PassMatcher


class _Forcing(PassMatcher):
    """Forces what its base does."""

    base = "xgrammar"

    def forced_text(self, limit: int) -> bytes:
        assert isinstance(self.inner, SupportsForcedText)
        return b"" if self.ended else self.inner.forced_text(limit)

    def next_byte(self) -> bytes:
        """One that may follow."""
        return min((self.vocabulary.token(token) for token in self.allowed()), default=b"")[:1]


class ForcesAChoice(_Forcing):
    """Calls forced what is one of several ways to go on, where nothing is forced."""

    def forced_text(self, limit: int) -> bytes:
        return super().forced_text(limit) or self.next_byte()


class ForcesAByteMore(_Forcing):
    """Calls the byte forced that followed the same text elsewhere: behind a forced text, a quotation mark."""

    def forced_text(self, limit: int) -> bytes:
        forced = super().forced_text(limit)
        return forced + b'"' if forced else b""


class ForcesPastAnEnd(_Forcing):
    """Forgets that a text may also end where there is only one way to go on."""

    def forced_text(self, limit: int) -> bytes:
        firsts = {self.vocabulary.token(token)[:1] for token in self.allowed()}
        is_one_way = self.is_accepting and not self.ended and len(firsts) == 1
        return firsts.pop() if is_one_way else super().forced_text(limit)


class ForcesAfterTheEnd(_Forcing):
    """Behind the stop token it still says what was forced before it."""

    said = b""

    def forced_text(self, limit: int) -> bytes:
        if not self.ended:
            self.said = super().forced_text(limit)
        return self.said or b" "
