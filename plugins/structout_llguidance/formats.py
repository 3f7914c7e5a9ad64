"""The formats that llguidance asserts, and what has to be added to them so that they let through nothing invalid."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

KNOWN_FORMATS: Final = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)

_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY: Final = f"(?:[0-9]{{4}}-(?:0[13-9]|1[0-2])-[0-9]{{2}}|[0-9]{{4}}-02-(?:[01][0-9]|2[0-8])|{_LEAP_YEAR}-02-29)"
_NO_LEAP_SECOND: Final = "[0-9]{2}:[0-9]{2}:[0-5][0-9][^0-9].*"
_NAME: Final = r"[0-9A-Za-z]+(?:[.-][0-9A-Za-z]+)*"
_LABEL: Final = "[0-9A-Za-z]{1,20}(?:-[0-9A-Za-z]{1,20}){0,2}"
_ADDRESS: Final = rf"[^@]{{1,64}}@{_LABEL}(?:\.{_LABEL})*"

GUARDS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "date": {"pattern": f"^{_DAY}$"},
        "date-time": {"pattern": f"^{_DAY}[Tt]{_NO_LEAP_SECOND}$"},
        "time": {"pattern": f"^{_NO_LEAP_SECOND}$"},
        "hostname": {"pattern": f"^{_NAME}$", "maxLength": 253},
        "email": {"pattern": f"^{_ADDRESS}$", "maxLength": 254},
    }
)
"""By format: a schema that a string has to match as well. llguidance alone takes any February 29, a leap second at any
time, and host names (in addresses too) that are too long or have hyphens where only encoded names have them. Labels in
addresses are cut short of what is valid, since llguidance gives up on an exact limit."""
