"""How large a spec may be before it is refused unread: bounds that are checked without compiling anything."""

from typing import Final

import attrs

_positive = attrs.validators.ge(1)


@attrs.frozen(kw_only=True)
class SpecLimits:
    """Bounds on one spec. What is over a bound is refused with TOO_COMPLEX, which names the bound.

    Attributes:
        max_text_bytes: UTF-8 bytes of a schema, a pattern, a grammar, or of all options of a choice together.
        max_depth: nesting of arrays and objects in JSON, of groups in a regex or a grammar. Bounded itself, so that
            whatever reads the JSON afterwards may recurse.
        max_choices: options of a choice.
        max_number_digits: digits of an integer in JSON. Up to 640 Python converts under every setting of its own limit.
        max_fields: top-level fields of a request.
    """

    max_text_bytes: int = attrs.field(default=1_048_576, validator=_positive)
    max_depth: int = attrs.field(default=64, validator=[_positive, attrs.validators.le(256)])
    max_choices: int = attrs.field(default=10_000, validator=_positive)
    max_number_digits: int = attrs.field(default=640, validator=[_positive, attrs.validators.le(640)])
    max_fields: int = attrs.field(default=1_000, validator=_positive)


DEFAULT_LIMITS: Final = SpecLimits()
