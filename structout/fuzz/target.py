"""Which backend is tested, in a form that another process can find it by."""

import base64
import sys
from collections.abc import Iterable
from typing import Any

import attrs

from structout.backend import BackendInfo
from structout.discovery import RegisteredBackend, Registry, discover, plugins_named
from structout.errors import ErrorKind, GrammarError, describe_exception
from structout.result import Err, Ok, Result


@attrs.frozen
class Target:
    """A backend under test.

    Attributes:
        backend: its id.
        plugins: further plugins than those installed, as ``module:attribute``.
        pickled: a `BackendInfo` that no plugin registers, by `cloudpickle`; None if a plugin does.
    """

    backend: str
    plugins: tuple[str, ...] = ()
    pickled: bytes | None = attrs.field(default=None, repr=False)

    @classmethod
    def of_info(cls, info: BackendInfo) -> "Target":
        """The target of a description at hand, whether or not it is registered."""
        import cloudpickle

        return cls(info.id, pickled=cloudpickle.dumps(info))

    def find(self) -> Result[RegisteredBackend, GrammarError]:
        """The backend, looked up in this process. Never raises."""
        try:
            if self.pickled is not None:
                import cloudpickle

                return Ok(RegisteredBackend(cloudpickle.loads(self.pickled), "", None))
            return registry(self.plugins).find(self.backend)
        except Exception as exc:
            message = f"the backend {self.backend} could not be loaded: {describe_exception(exc)}"
            return Err(GrammarError(kind=ErrorKind.UNAVAILABLE, message=message, backend=self.backend))

    def to_json(self) -> dict[str, Any]:
        pickled = None if self.pickled is None else base64.b64encode(self.pickled).decode()
        return {"backend": self.backend, "plugins": list(self.plugins), "pickled": pickled, "path": sys.path}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Target":
        """The inverse of `to_json`; this process's ``sys.path`` becomes that of the one that asked."""
        sys.path[:] = data["path"]
        pickled = None if data["pickled"] is None else base64.b64decode(data["pickled"])
        return cls(data["backend"], tuple(data["plugins"]), pickled)


def registry(plugins: Iterable[str] = ()) -> Registry:
    """Everything that is installed, and these plugins, each given as ``module:attribute``.

    Raises what importing them raises, and ValueError for one that is not of this form.
    """
    return discover(plugins=plugins_named(plugins))
