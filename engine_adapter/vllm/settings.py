"""What an operator may set: ``--additional-config '{"structout": {"backend": "xgrammar"}}'``."""

from typing import Any, Final

import attrs

from structout.compile.arguments import is_duration

SCHEDULER: Final = "engine_adapter.vllm.Scheduler"
"""What ``--scheduler-cls`` is set to: the one setting that switches structout on."""

KEY: Final = "structout"
"""Our part of vLLM's ``--additional-config``."""


def _is_count(_settings: "Settings", attribute: "attrs.Attribute[int]", value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{KEY}.{attribute.name} has to be a whole number, 0 or more, not {value!r}")


def _is_duration(_settings: "Settings", attribute: "attrs.Attribute[float]", value: object) -> None:
    if not is_duration(value):
        raise ValueError(f"{KEY}.{attribute.name} has to be a number of seconds above 0, not {value!r}")


def _is_backend(_settings: "Settings", attribute: "attrs.Attribute[str | None]", value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{KEY}.{attribute.name} has to be the id of a backend, not {value!r}")


def _is_port(_settings: "Settings", attribute: "attrs.Attribute[int | None]", value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 16):
        raise ValueError(f"{KEY}.{attribute.name} has to be a port, from 1 to 65535, not {value!r}")


def _is_host(_settings: "Settings", attribute: "attrs.Attribute[str]", value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{KEY}.{attribute.name} has to be an address to listen on, not {value!r}")


@attrs.frozen(kw_only=True)
class Settings:
    """Of one server. ValueError for values that make no sense.

    Attributes:
        backend: the backend of requests that name none; the first that takes a request when not given.
        deadline_s: how long a request waits for its grammar at most, and for being read, in seconds.
        sandbox_workers: how many processes try risky grammars; with 0 everything is compiled in the engine's process.
        slowest_fill_s: a grammar is refused if filling one of its bitmasks took longer than so many seconds when it was
            tried: a step of vLLM waits for all its rows. Without processes to try it in, none is.
        metrics_port: where the first engine core of a host serves structout's metrics, the others behind it; not at all
            when not given.
        metrics_host: on which of the host's addresses.
    """

    backend: str | None = attrs.field(default=None, validator=_is_backend)
    deadline_s: float = attrs.field(default=10.0, validator=_is_duration)
    sandbox_workers: int = attrs.field(default=2, validator=_is_count)
    slowest_fill_s: float = attrs.field(default=0.05, validator=_is_duration)
    metrics_port: int | None = attrs.field(default=None, validator=_is_port)
    metrics_host: str = attrs.field(default="127.0.0.1", validator=_is_host)


def settings_of(vllm_config: Any) -> Settings:
    """What a server was started with.

    Raises:
        ValueError: it names something that cannot be set, or sets it to something that makes no sense.
    """
    additional = vllm_config.additional_config
    given = additional.get(KEY, {}) if isinstance(additional, dict) else {}
    if not isinstance(given, dict):
        raise ValueError(f"{KEY} in the additional config has to be an object, not {given!r}")
    known = [field.name for field in attrs.fields(Settings)]
    if unknown := sorted(given.keys() - set(known)):
        raise ValueError(f"{KEY} in the additional config has no {unknown[0]!r}, only {', '.join(known)}")
    return Settings(**given)


def is_switched_on(vllm_config: Any) -> bool:
    """Whether a server was started with our scheduler."""
    return bool(vllm_config.scheduler_config.scheduler_cls == SCHEDULER)
