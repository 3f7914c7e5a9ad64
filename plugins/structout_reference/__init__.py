"""The reference backend: pure Python, small, slow, and exact on what it takes. To judge by, and to learn from.

How a spec becomes a mask, a module for each step::

    regex.py, ebnf.py, schema.py, tags.py
                                     what the caller wrote, as rules of a grammar over bytes (nodes.py)
    recognizer.py                    the rules and one more byte: the next state
    matcher.py                       a state for every accepted token; a walk over the vocabulary's trie (trie.py)
"""

from collections.abc import Iterable
from pathlib import Path

from structout.backend import Backend, BackendInfo
from structout.hookspecs import hookimpl
from structout.vocabulary import Vocabulary
from structout_reference.refusals import BACKEND, refusal


def _create(vocabulary: Vocabulary) -> Backend:
    from structout_reference.backend import ReferenceBackend

    return ReferenceBackend(vocabulary)


@hookimpl
def structout_register_backends() -> Iterable[BackendInfo]:
    return [
        BackendInfo(
            id=BACKEND,
            create=_create,
            spec_kinds={"regex", "ebnf", "choice", "json_object", "json_schema", "structural_tag"},
            refusal=refusal,
            by_name_only=True,
            description="Pure Python, slow, exact on what it takes: an oracle and an example, not for serving",
            capabilities=Path(__file__).with_name("capabilities.json"),
        )
    ]
