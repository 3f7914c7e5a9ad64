"""Strings of each ``format`` of JSON Schema, for schemas and instances: a few of each, plain ones first."""

from collections.abc import Mapping
from typing import Final

SAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("2024-01-31", "2024-02-29", "0001-12-01"),
    "time": ("12:30:00Z", "23:59:59.25+05:30", "00:00:00-00:00"),
    "date-time": ("2024-01-31T12:30:00Z", "1999-12-31T23:59:59.999-08:00"),
    "duration": ("P1D", "PT5M", "P1Y2M3DT4H5M6S", "P3W"),
    "email": ("a@b.co", "first.last+tag@example.org"),
    "idn-email": ("a@b.co", "é@exämple.org"),
    "hostname": ("a", "example.org", "xn--bcher-kva.example"),
    "idn-hostname": ("a", "bücher.example"),
    "ipv4": ("1.2.3.4", "255.255.255.255", "0.0.0.0"),
    "ipv6": ("::1", "2001:db8::8a2e:370:7334", "::ffff:1.2.3.4"),
    "uri": ("a:b", "http://example.org/a?b=c#d", "urn:isbn:0451450523"),
    "uri-reference": ("", "a", "../b?c#d", "http://example.org/"),
    "iri": ("a:b", "http://example.org/é"),
    "iri-reference": ("", "é", "/中?a"),
    "uri-template": ("a", "http://example.org/{a}{?b,c}"),
    "uuid": ("00000000-0000-0000-0000-000000000000", "2EB8AA08-aa98-11ea-b4aa-73b441d16380"),
    "json-pointer": ("", "/a", "/a~1b/~0/0"),
    "relative-json-pointer": ("0", "1/a", "2#"),
    "regex": ("", "a", "^[a-z]+\\d*$"),
}
"""By the name of the format. What is no such string is found by changing one of these."""
