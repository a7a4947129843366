"""Options of a notebook: what the form sends, and what anybody may send through the REST API."""

from __future__ import annotations

import pytest

from springtide.scheduler.wire import BuildNumbers, BuildQuota
from springtide.spawner.options import (
    HELD,
    IDLE,
    TAKEN,
    OptionError,
    form_html,
    options_from_form,
    requested_gpus,
    requested_type,
)


def quota(**changes: object) -> BuildQuota:
    told = {"user": "susan", "quota": 2, "held": 0, "free": 3, "simulated": False, "projects": ["vision"]}
    return BuildQuota(**(told | changes))  # type: ignore[arg-type]


def test_nothing_said_means_the_default() -> None:
    assert requested_gpus({}, default=1) == 1


def test_no_gpus_can_be_asked_for() -> None:
    assert requested_gpus({"gpus": 0}, default=1) == 0


@pytest.mark.parametrize(
    "gpus",
    [
        -1,
        1.0,
        1.5,
        float("nan"),
        float("inf"),
        True,
        False,
        None,
        "1",
        "",
        [1],
        {"n": 1},
        10**12,
        "<script>",
        "1e309",
    ],
    ids=repr,
)
def test_gpus_that_are_no_count_are_refused_by_name(gpus: object) -> None:
    with pytest.raises(OptionError, match=r"gpus is .*expected a whole number from 0"):
        requested_gpus({"gpus": gpus}, default=1)


def test_unknown_options_are_refused_by_name() -> None:
    with pytest.raises(OptionError, match="“image”"):
        requested_gpus({"gpus": 1, "image": "evil"}, default=1)


def test_options_of_the_admins_own_are_left_to_the_admin() -> None:
    assert requested_gpus({"gpus": 2, "profile": "big"}, default=1, others=["profile"]) == 2


def test_a_huge_value_is_not_repeated_in_full() -> None:
    with pytest.raises(OptionError) as refused:
        requested_gpus({"gpus": "x" * 100_000}, default=1)
    assert len(str(refused.value)) < 200


def test_what_the_form_sends_is_a_number() -> None:
    assert options_from_form({"gpus": [" 2 "]}) == {"gpus": 2}


@pytest.mark.parametrize("text", ["", "two", "-1", "1.5", "٣", "9" * 400])
def test_a_form_that_was_tampered_with_is_refused(text: str) -> None:
    with pytest.raises(OptionError):
        requested_gpus(options_from_form({"gpus": [text]}), default=1)


def test_the_fields_of_other_forms_are_left_to_them() -> None:
    assert options_from_form({"gpus": ["1"], "cmd": ["sh"]}) == {"gpus": 1}


def test_where_the_hub_has_a_form_of_its_own_any_other_option_is_left_to_it() -> None:
    assert requested_gpus({"gpus": 2, "image": "big", "seed": 1}, default=1, others=None) == 2


@pytest.mark.parametrize("slip", ["gpu", "GPUs", "gpus_", "gpu-type", "gputype"])
def test_a_slip_of_the_pen_is_refused_there_too(slip: str) -> None:
    with pytest.raises(OptionError, match=f"“{slip}”.*takes the options “gpus” and “gpu_type”"):
        requested_gpus({slip: 2}, default=1, others=None)


def test_the_form_tells_quota_use_and_what_is_free() -> None:
    html = form_html(quota(quota=2, held=1, free=3), default=1)
    assert "Your build quota is 2 GPUs: 1 held by your workspaces, 1 left." in html
    assert "right now" not in html
    assert 'max="1"' in html
    assert 'value="1"' in html


@pytest.mark.parametrize(
    ("told", "drawn"),
    [
        ({"quota": 3, "held": 1, "free": 5}, (1, 2, 0)),
        ({"quota": 3, "held": 1, "free": 1}, (1, 1, 1)),
        ({"quota": 2, "held": 3, "free": 1}, (2, 0, 0)),
        ({"quota": 0}, (0, 0, 0)),
        ({"quota": 1000}, (0, 0, 0)),
    ],
)
def test_the_build_quota_is_drawn_as_cells(told: dict[str, object], drawn: tuple[int, int, int]) -> None:
    html = form_html(quota(**told), default=1)
    assert tuple(html.count(f"{look}/>") for look in (HELD, IDLE, TAKEN)) == drawn


@pytest.mark.parametrize(("free", "says"), [(0, "none is free"), (1, "only 1 is free"), (2, "only 2 are free")])
def test_the_form_tells_when_others_took_what_the_quota_allows(free: int, says: str) -> None:
    assert f"Of the pool&#x27;s build GPUs, {says} right now." in form_html(quota(quota=3, free=free), default=1)


def test_the_form_offers_no_more_than_what_is_free() -> None:
    html = form_html(quota(quota=2, held=0, free=0), default=1)
    assert 'max="0"' in html
    assert 'value="0"' in html


def test_simulated_gpus_are_called_so() -> None:
    assert "2 simulated GPUs" in form_html(quota(simulated=True), default=1)


def test_a_person_without_a_build_quota_is_told_who_can_change_that() -> None:
    assert "An admin can give you some" in form_html(quota(quota=0), default=1)


def test_the_form_is_there_while_the_service_is_away() -> None:
    html = form_html(None, default=1)
    assert "restarting" in html
    assert "max=" not in html


@pytest.mark.parametrize("gpu_type", [3, None, ["t4"], "x" * 129])
def test_a_gpu_type_is_a_short_text(gpu_type: object) -> None:
    with pytest.raises(OptionError, match="expected the name of a GPU type"):
        requested_type({"gpu_type": gpu_type})
    assert requested_type({}) == ""


def test_the_form_asks_for_the_type_only_where_there_are_several() -> None:
    by_type = {"t4": BuildNumbers(quota=1, held=1, free=1), "a100": BuildNumbers(quota=2, held=0, free=1)}
    quota = BuildQuota(user="susan", quota=3, held=1, free=2, simulated=False, projects=[], by_type=by_type)
    form = form_html(quota, default=1)
    assert "t4: your build quota is 1 GPU, 1 held by your workspaces; 0 can be taken now." in form
    assert '<option value="a100" selected>a100: 1 left</option>' in form
    assert 'max="1"' in form
    one = BuildQuota(user="susan", quota=3, held=1, free=2, simulated=False, projects=[])
    assert "gpu_type" not in form_html(one, default=1)
    assert options_from_form({"gpus": ["1"], "gpu_type": [" a100 "]}) == {"gpus": 1, "gpu_type": "a100"}
