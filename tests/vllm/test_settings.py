"""What an operator may set."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine_adapter.vllm.settings import SCHEDULER, Settings, is_switched_on, settings_of


def config(additional: Any = None, scheduler: object = SCHEDULER) -> Any:
    return SimpleNamespace(additional_config=additional, scheduler_config=SimpleNamespace(scheduler_cls=scheduler))


@pytest.mark.parametrize("additional", [None, {}, {"other": 1}, {"structout": {}}, object()])
def test_nothing_has_to_be_set(additional: object) -> None:
    assert settings_of(config(additional)) == Settings()


def test_what_is_set_holds() -> None:
    given: dict[str, Any] = {"backend": "xgrammar", "deadline_s": 3, "sandbox_workers": 0, "slowest_fill_s": 0.1}
    given |= {"metrics_port": 9100, "metrics_host": "::1"}
    assert settings_of(config({"structout": given})) == Settings(**given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"backends": "xgrammar"}, "backends"),
        ({"backend": 3}, "backend"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": "1"}, "deadline_s"),
        ({"sandbox_workers": -1}, "sandbox_workers"),
        ({"sandbox_workers": True}, "sandbox_workers"),
        ({"slowest_fill_s": float("inf")}, "slowest_fill_s"),
        ({"metrics_port": 0}, "metrics_port"),
        ({"metrics_port": 1 << 16}, "metrics_port"),
        ({"metrics_port": "9100"}, "metrics_port"),
        ({"metrics_port": True}, "metrics_port"),
        ({"metrics_host": ""}, "metrics_host"),
        ({"metrics_host": 1}, "metrics_host"),
        ("xgrammar", "object"),
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_named(given: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        settings_of(config({"structout": given}))


def test_only_our_scheduler_switches_it_on() -> None:
    assert is_switched_on(config())
    assert not is_switched_on(config(scheduler=None))
    assert not is_switched_on(config(scheduler="vllm.v1.core.sched.scheduler.Scheduler"))
