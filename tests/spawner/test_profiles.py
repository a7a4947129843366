"""Profiles are for projects, and what a profile lets choose is checked wherever it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.spawner import profiles
from springtide.spawner.options import OptionError

IMAGES: dict[str, Any] = {
    "image": {
        "choices": {"torch": {"default": True}, "jax": {}},
        "unlisted_choice": {
            "enabled": True,
            "validation_regex": "^lab/.+$",
            "validation_message": "an image of lab/",
        },
    },
    "size": {"choices": {"small": {"default": True}}, "unlisted_choice": {"enabled": False}},
}
PLAIN = {"slug": "plain", "display_name": "Plain"}
VISION = {"slug": "vision", "display_name": "Vision", "projects": ["vision"], "profile_options": IMAGES}
SPEECH = {"slug": "speech", "display_name": "Speech", "projects": ["speech", "audio"]}
NOBODYS = {"slug": "closed", "display_name": "Closed", "projects": []}
ALL: list[dict[str, Any]] = [PLAIN, VISION, SPEECH, NOBODYS]


def slugs(projects: set[str]) -> list[str]:
    return [profile["slug"] for profile in profiles.offered(ALL, projects)]


def test_a_person_is_offered_what_is_for_her_projects_and_for_everybody() -> None:
    assert slugs({"vision"}) == ["plain", "vision"]
    assert slugs({"audio", "vision"}) == ["plain", "vision", "speech"]
    assert slugs(set()) == ["plain"]


def test_one_project_may_be_named_without_a_list() -> None:
    profile = {"slug": "one", "projects": "vision"}
    assert profiles.offered([profile], {"vision"}) == [profile]
    assert profiles.offered([profile], {"v"}) == []


@pytest.mark.parametrize("slug", ["speech", "closed"])
def test_a_profile_of_others_is_refused_whoever_asks_and_however(slug: str) -> None:
    with pytest.raises(profiles.NotForYouError, match=f"“{slug}” is not for you: for members of"):
        profiles.check({"profile": slug}, ALL, {"vision"})


def test_without_a_profile_for_her_nobody_starts() -> None:
    with pytest.raises(
        profiles.NotForYouError, match="for members of audio, speech, vision only; you are of maths"
    ):
        profiles.check({}, [VISION, SPEECH], {"maths"})


def test_a_profile_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(OptionError, match=r"There is no profile “none”\. Yours: plain, vision\."):
        profiles.check({"profile": "none"}, ALL, {"vision"})


@pytest.mark.parametrize("chosen", [{"profile": ""}, {}])
def test_without_a_choice_the_default_one_counts(chosen: dict[str, Any]) -> None:
    assert profiles.check(chosen, [VISION, PLAIN], {"vision"}) >= {"profile", "image", "size"}


def test_a_profile_says_which_options_there_are() -> None:
    assert profiles.check({"profile": "plain"}, ALL, {"vision"}) == {"profile"}
    names = profiles.check({"profile": "vision", "image": "jax"}, ALL, {"vision"})
    assert names == {"profile", "image", "image--unlisted-choice", "size", "size--unlisted-choice"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": "evil"}, "expected one of torch, jax"),
        ({"image": ["torch"]}, "expected a text"),
        ({"image": {"a": 1}}, "expected a text"),
        ({"image": "a\n"}, "expected a text"),
        ({"image--unlisted-choice": "evil/miner"}, "an image of lab/"),
        ({"image--unlisted-choice": 7}, "expected a text"),
        ({"image--unlisted-choice": "lab/" + "x" * 2000}, "expected a text"),
        ({"size--unlisted-choice": "huge"}, "only listed values"),
        ({"profile": ["vision"]}, "There is no profile"),
        ({"profile": {"slug": "vision"}}, "There is no profile"),
        ({"profile": 1}, "There is no profile 1"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        profiles.check({"profile": "vision", **options}, ALL, {"vision"})


def test_something_else_may_be_written_where_the_admin_allows_it() -> None:
    profiles.check({"profile": "vision", "image--unlisted-choice": "lab/mine:1"}, ALL, {"vision"})


def test_a_hub_without_profiles_takes_none() -> None:
    assert profiles.check({}, [], {"vision"}) == {"profile"}
    with pytest.raises(OptionError, match="this hub has no profiles"):
        profiles.check({"profile": "vision"}, [], {"vision"})
