"""The formats that are enforced, as patterns of texts that every validator takes.

xgrammar's own expressions for formats let through the 31st of February and ``01.1.1.1``. These leave out more than
they would have to, instead: years before 1000, long host names, quoted mailboxes.
"""

from types import MappingProxyType
from typing import Final

_MONTH_DAY: Final = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE: Final = f"[1-9][0-9]{{3}}-{_MONTH_DAY}"
_HOUR_MINUTE: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME: Final = f"{_HOUR_MINUTE}:[0-5][0-9](?:\\.[0-9]{{1,6}})?(?:Z|[+-]{_HOUR_MINUTE})"

_TIME_SPAN: Final = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DATE_SPAN: Final = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION: Final = f"P(?:{_DATE_SPAN}(?:{_TIME_SPAN})?|{_TIME_SPAN}|[0-9]+W)"

_LABEL: Final = "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,11}"
_HOST: Final = f"{_LABEL}(?:\\.{_LABEL}){{0,2}}"
_MAILBOX: Final = "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20})?"

_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HEX: Final = "[0-9a-fA-F]{1,4}"
_IPV6: Final = (
    f"(?:{_HEX}:){{7}}{_HEX}|(?:{_HEX}:){{1,7}}:|(?:{_HEX}:){{1,6}}:{_HEX}|(?:{_HEX}:){{1,5}}(?::{_HEX}){{2}}"
    f"|(?:{_HEX}:){{1,4}}(?::{_HEX}){{3}}|(?:{_HEX}:){{1,3}}(?::{_HEX}){{4}}|(?:{_HEX}:){{1,2}}(?::{_HEX}){{5}}"
    f"|{_HEX}:(?::{_HEX}){{6}}|:(?::{_HEX}){{1,7}}|::"
)

_URL_CHARACTER: Final = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_PATH: Final = f"(?:/{_URL_CHARACTER}*)*"
_TAIL: Final = f"(?:\\?(?:{_URL_CHARACTER}|[/?])*)?(?:#(?:{_URL_CHARACTER}|[/?])*)?"
_AUTHORITY: Final = "//[A-Za-z0-9][A-Za-z0-9.-]*(?::[1-9][0-9]{0,3})?"
_ROOTLESS: Final = f"{_URL_CHARACTER}+{_PATH}"
_URI: Final = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{_AUTHORITY}{_PATH}|{_ROOTLESS}){_TAIL}"
_RELATIVE: Final = f"(?:{_AUTHORITY}{_PATH}|(?:/(?:{_ROOTLESS})?)){_TAIL}"

_POINTER: Final = "(?:/(?:[^/~]|~[01])*)*"
_HEX_8: Final = "[0-9A-Fa-f]{8}"
_HEX_4: Final = "[0-9A-Fa-f]{4}"

FORMATS: Final = MappingProxyType(
    {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": _DURATION,
        "email": f"{_MAILBOX}@{_HOST}",
        "hostname": _HOST,
        "ipv4": f"(?:{_BYTE}\\.){{3}}{_BYTE}",
        "ipv6": _IPV6,
        "uuid": f"{_HEX_8}-(?:{_HEX_4}-){{3}}{_HEX_8}{_HEX_4}",
        "uri": _URI,
        "uri-reference": f"{_URI}|{_RELATIVE}",
        "json-pointer": _POINTER,
        "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
    }
)
"""ECMA 262 patterns by format; each has to match the whole text."""

EXACT: Final = frozenset({"uuid", "ipv4", "json-pointer", "relative-json-pointer"})
"""Those of which no text is left out."""
