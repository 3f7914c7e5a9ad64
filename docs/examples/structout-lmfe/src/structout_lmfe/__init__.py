"""lm-format-enforcer as a grammar backend for structout.

structout imports this module in every process to learn which backends there are, so it imports nothing that is heavy.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from structout import BackendInfo, Vocabulary, hookimpl
from structout.backend import Backend

from structout_lmfe.rules import refusal


def _create(vocabulary: Vocabulary) -> Backend:
    from structout_lmfe.backend import LmfeBackend

    return LmfeBackend(vocabulary)


INFO: Final = BackendInfo(
    id="lmfe",
    create=_create,
    spec_kinds={"json_schema", "regex", "choice"},
    requires=("lm-format-enforcer>=0.11.3,<0.12",),
    refusal=refusal,
    description="Parsers of characters in pure Python: members in any order, no numbers unless best effort is enough",
    install_hint="pip install structout-lmfe",
    api_version=1,
    known_faults=Path(__file__).with_name("known_faults.json"),
)


@hookimpl
def structout_register_backends() -> Iterable[BackendInfo]:
    return [INFO]
