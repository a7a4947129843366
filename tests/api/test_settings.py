"""Settings are declared once: their traits, messages and documentation follow."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from springtide.hub_extension.notifications.channels import KINDS
from springtide.hub_extension.service.service import Springtide
from springtide.hub_extension.service.settings import ServiceSettings
from springtide.hub_extension.service.traits import traits_of
from springtide.scheduler.model import Order
from springtide.scheduler.notifications import NotificationEvent
from springtide.scheduler.settings import SettingError, declared, setting

SETTINGS = tuple(declared(ServiceSettings, *KINDS))


def configured(**values: Any) -> Springtide:
    service = Springtide()
    service.configure_from(json.dumps(values), [])
    return service


def test_every_setting_has_one_name_and_a_help_of_whole_sentences() -> None:
    assert {name: number for name, number in Counter(each.name for each in SETTINGS).items() if number > 1} == {}
    assert [each.name for each in SETTINGS if not each.help.endswith(".")] == []


def test_the_defaults_of_the_service_are_those_of_the_declarations() -> None:
    engine = Springtide().settings().engine
    assert (engine.policy.min_runtime, engine.keep_days, engine.policy.order) == (30.0, 90.0, Order.LEAST_SERVED)


def test_the_engine_reads_what_an_admin_sets_with_its_type() -> None:
    values = {"order": "first-come", "fault_xids": [48], "keep_days": 3, "idle_exempt_people": ["susan"]}
    engine = configured(**values).settings().engine
    assert (engine.policy.order, engine.faults.fault_xids) == (Order.FIRST_COME, frozenset({48}))
    assert (engine.keep_days, engine.idle.idle_exempt_people) == (3.0, ("susan",))


async def test_submitters_get_the_variables_that_an_admin_has_noted(start: Any) -> None:
    pool = await start(noted_variables=("LAB_*",))
    assert (await pool.as_("susan").get("/me")).json()["noted_variables"] == ["LAB_*"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("port", 70_000, "70000; expected a whole number from 1 up to 65535"),
        ("port", True, "True; expected a whole number from 1 up to 65535"),
        ("order", "random", "“random”; expected one of first-come, least-served"),
        ("grace", 4_000, "4000; expected a number of seconds from 0 up to 3600"),
        ("keep_days", -1, "-1; expected a number of days of at least 0.01"),
        ("slow_node_ratio", 1, "1; expected a number of at least 1.1 or None"),
        ("account_uids", [1], "[1]; expected a list of a whole number and a whole number"),
        ("email_events", ["x"], f"['x']; expected a list, each item one of {', '.join(NotificationEvent)}"),
        ("pip_variables", {"A": 1}, "{'A': 1}; expected an object, each value text"),
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(name: str, value: Any, expected: str) -> None:
    with pytest.raises(SettingError) as refused:
        configured(**{name: value})
    assert str(refused.value) == f"Springtide.{name} is {expected}."


@dataclass(frozen=True)
class Nap:
    nap: float | None = setting(None, "A nap.", ge=1)


def test_bounds_of_a_setting_that_is_no_number_are_refused_at_its_declaration() -> None:
    with pytest.raises(TypeError, match="numeric"):
        traits_of(declared(Nap))


def test_help_has_the_unit_and_the_bounds() -> None:
    text = Springtide.class_get_help()
    assert "--Springtide.grace=<Float>" in text
    assert "A number of seconds from 0 up to 3600." in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--Springtide.images=a", "--Springtide.images=b"], "images", ["a", "b"]),
        (["--Springtide.simulated_gpus=8"], "simulated_gpus", 8),
        (["--Springtide.pip_variables=A=b"], "pip_variables", {"A": "b"}),
        (["--Springtide.slow_node_ratio=None"], "slow_node_ratio", None),
        (["--port=8123"], "port", 8123),
    ],
)
def test_the_command_line_takes_lists_tables_and_numbers(arguments: list[str], name: str, value: Any) -> None:
    service = Springtide()
    service.configure_from("", arguments)
    assert service.values()[name] == value
