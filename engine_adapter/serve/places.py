"""Where a client's request has what the engine or a backend finds fault with, whatever the protocol."""

from collections.abc import Mapping

import attrs

from structout.errors import ErrorKind, Fault, GrammarError
from structout.parsing import Placed


@attrs.frozen(kw_only=True)
class Places:
    """Where a request says what.

    Attributes:
        fields: pointers into the request, by the names that the engine and the sampler have for its fields.
        constraint: what its grammar is to be; None without one.
        backend: which backend it names, if it does.
    """

    fields: Mapping[str, str]
    constraint: Placed[object] | None = None
    backend: Placed[object] | None = None

    def located(self, error: GrammarError) -> GrammarError:
        """An error of the engine's with a pointer into the request.

        What names a field of the engine's gets that field's pointer, and a backend that is not to be had the pointer of
        what named it. All else that has a pointer was found in the grammar's spec, and so was what is the caller's
        fault: it gets the place of that, or of the field that carries the constraint. What went wrong here without
        regard to what was asked has no place.
        """
        pointer = self._pointer(error)
        return error if pointer is None else attrs.evolve(error, pointer=pointer)

    def _pointer(self, error: GrammarError) -> str | None:
        if error.pointer is None and (place := self.fields.get(error.keyword or "")) is not None:
            return place
        if self.backend is not None and error.kind is ErrorKind.UNAVAILABLE and error.fault is Fault.CALLER:
            return self.backend.place.pointer
        if self.constraint is not None and (error.pointer is not None or error.fault is Fault.CALLER):
            return self.constraint.place.of(error.pointer)
        return error.pointer
