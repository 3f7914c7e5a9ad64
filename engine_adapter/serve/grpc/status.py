"""How a call fails: a `GrammarError` as gRPC's status, for the client, without anything of the inside."""

import json
from typing import Final, TypeAlias

import attrs
import grpc

from structout.errors import GrammarError

ERROR_KEY: Final = "structout-error-bin"
"""Name of the trailing metadata with the error as JSON (`GrammarError.to_json`), in ASCII."""

# Together, with what encoding adds, less than the 8 KiB of metadata that clients take; beyond that they see a failure
# of their own in place of this one.
_MESSAGE_BYTES: Final = 1_024
_JSON_BYTES: Final = 3_072
_SHORT_CHARACTERS: Final = 200

Metadata: TypeAlias = tuple[tuple[str, bytes], ...]


@attrs.frozen
class Status:
    """What ends a call. ``message`` and ``metadata`` are bounded."""

    code: grpc.StatusCode
    message: str
    metadata: Metadata


def status_of(error: GrammarError) -> Status:
    """The status that the table of consequences gives an error."""
    return Status(grpc.StatusCode[error.consequence.grpc_code], _message(error), metadata_of(error))


def metadata_of(error: GrammarError) -> Metadata:
    """The error as JSON; of one that is too long kind, fault and the beginning of its message."""
    text = json.dumps(error.to_json())
    if len(text) > _JSON_BYTES:
        short = GrammarError(kind=error.kind, fault=error.fault, message=error.message[:_SHORT_CHARACTERS])
        text = json.dumps(short.to_json())
    return ((ERROR_KEY, text.encode("ascii")),)


def _message(error: GrammarError) -> str:
    where = f" (at {error.pointer})" if error.pointer else ""
    hint = f"; {error.hint}" if error.hint else ""
    return f"{error.message}{where}{hint}".encode("utf-8", "replace")[:_MESSAGE_BYTES].decode("utf-8", "ignore")
