"""A schema without what a grammar lists as not enforced: what such a grammar may let through."""

from collections.abc import Iterable

import attrs

from structout.backend import Finding
from structout.fuzz.json_text import write
from structout.result import Err, Ok
from structout.schema import pointer as json_pointer
from structout.schema.loading import load_schema
from structout.spec import JsonSchema


def loosened(spec: JsonSchema, findings: Iterable[Finding]) -> JsonSchema:
    """The spec without the keywords at the places that the findings name.

    A place in a document of the registry is passed over, and so is one that is not there.
    """
    schema = load_schema(spec).unwrap()
    for finding in findings:
        match json_pointer.resolve(schema, finding.pointer):
            case Ok(dict() as place):
                place.pop(finding.keyword, None)
            case Ok() | Err():
                pass
    return attrs.evolve(spec, text=write(schema))
