"""``Ok`` and ``Err``: the value that parsing, selection and compilation return instead of raising.

Take a result apart with ``match``::

    match backend.compile(spec):
        case Ok(grammar): ...
        case Err(error): ...
"""

from collections.abc import Callable
from typing import Any, Generic, Never, TypeAlias, TypeVar

import attrs

T_co = TypeVar("T_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
T = TypeVar("T")
E = TypeVar("E")
U = TypeVar("U")


class UnwrapError(RuntimeError):
    """``unwrap`` was called on an ``Err``. ``error`` is what it held; an exception there is also the ``__cause__``."""

    def __init__(self, error: object) -> None:
        super().__init__(f"unwrap of Err: {error!r}")
        self.error = error


class _NoTruthValue:
    """A result has no truth value: ``if result:`` would take every ``Err`` for a success."""

    __slots__ = ()

    def __bool__(self) -> Never:
        raise TypeError(f"{type(self).__name__} has no truth value; use `match` on Ok(value) and Err(error)")


@attrs.frozen(repr=False)
class Ok(_NoTruthValue, Generic[T_co]):
    """Success, and its value."""

    value: T_co

    def map(self, function: Callable[[T_co], U]) -> "Ok[U]":
        """Applies ``function`` to the value. What ``function`` raises is a bug and propagates."""
        return Ok(function(self.value))

    def and_then(self, function: "Callable[[T_co], Ok[U] | Err[E]]") -> "Ok[U] | Err[E]":
        """The result of ``function``, which may itself fail."""
        return function(self.value)

    def unwrap(self) -> T_co:
        return self.value

    def __repr__(self) -> str:
        return f"Ok({self.value!r})"


@attrs.frozen(repr=False)
class Err(_NoTruthValue, Generic[E_co]):
    """Failure, and what is known of it."""

    error: E_co

    def map(self, function: Callable[[Any], object]) -> "Err[E_co]":
        """Itself: there is no value to apply ``function`` to."""
        return self

    def and_then(self, function: Callable[[Any], object]) -> "Err[E_co]":
        """Itself, like `map`."""
        return self

    def unwrap(self) -> Never:
        """Raises `UnwrapError`; for tests and for places where an ``Err`` is a bug."""
        cause = self.error if isinstance(self.error, BaseException) else None
        raise UnwrapError(self.error) from cause

    def __repr__(self) -> str:
        return f"Err({self.error!r})"


Result: TypeAlias = Ok[T] | Err[E]
