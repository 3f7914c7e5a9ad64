"""What the backend refuses, on its way from deep inside of a reader to the ``Err`` that ``compile`` returns."""

from structout.errors import ErrorKind, GrammarError


class Refused(Exception):
    """Carries the error. Raised and caught inside of this package only."""

    def __init__(self, error: GrammarError) -> None:
        super().__init__(error.message)
        self.error = error


def refused(
    message: str,
    kind: ErrorKind = ErrorKind.UNSUPPORTED,
    *,
    offset: int | None = None,
    pointer: str | None = None,
    keyword: str | None = None,
    hint: str | None = None,
) -> Refused:
    return Refused(GrammarError(kind=kind, message=message, offset=offset, pointer=pointer, keyword=keyword, hint=hint))
