"""Restriction of KubeSpawner's profiles to projects, for starts by form and by API.

A profile with the key ``projects`` is for members of one of these projects; one without it is for all users.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from springtide.scheduler.wording import given
from springtide.spawner.options import OptionError

Profile: TypeAlias = Mapping[str, Any]

PROJECTS: Final = "projects"
UNLISTED: Final = "--unlisted-choice"
LONGEST: Final = 1_000


class NotForYouError(OptionError):
    """The profile is restricted to other projects than the user's."""


def offered(profiles: Sequence[Profile], projects: Collection[str]) -> list[Profile]:
    """Return the profiles that a member of ``projects`` may choose."""
    return [profile for profile in profiles if PROJECTS not in profile or _names(profile) & set(projects)]


def check(options: Mapping[str, object], known: Sequence[Profile], projects: Collection[str]) -> set[str]:
    """Return the option names of the chosen profile.

    ``known`` are all profiles, each with its slug. Raises `OptionError` for an unknown profile or choice, and
    `NotForYouError` if the profile, or every profile, is restricted to other projects.
    """
    slug = options.get("profile") or None
    if not known:
        if slug is not None:
            raise OptionError(f"There is no profile {given(slug, 40)}: this hub has no profiles.")
        return {"profile"}
    mine = offered(known, projects)
    if slug is None:
        if not mine:
            raise NotForYouError(f"No kind of notebook of this hub is for you: {_whose(known, projects)}")
        profile = next((each for each in mine if each.get("default")), mine[0])
    else:
        profile = _named(slug, known, mine, projects)
    names = {"profile"}
    for name, option in (profile.get("profile_options") or {}).items():
        _check_choice(name, option, options)
        names |= {name, name + UNLISTED}
    return names


def _named(slug: object, known: Sequence[Profile], mine: Sequence[Profile], projects: Collection[str]) -> Profile:
    found = [profile for profile in known if profile["slug"] == slug]
    if not found:
        slugs = ", ".join(str(profile["slug"]) for profile in mine) or "none"
        raise OptionError(f"There is no profile {given(slug, 40)}. Yours: {slugs}.")
    allowed = [profile for profile in found if profile in mine]
    if not allowed:
        raise NotForYouError(f"The profile {given(slug, 40)} is not for you: {_whose(found, projects)}")
    return allowed[0]


def _check_choice(name: str, option: Mapping[str, Any], options: Mapping[str, object]) -> None:
    choice, other = options.get(name) or None, options.get(name + UNLISTED) or None
    for value in (choice, other):
        if value is not None and not (isinstance(value, str) and value.isprintable() and len(value) <= LONGEST):
            raise OptionError(f"{name} is {given(value, 40)}; expected a text.")
    if other is not None:
        _check_other(name, str(other), option.get("unlisted_choice") or {})
        return
    choices = option.get("choices") or {}
    if choice is not None and choice not in choices:
        raise OptionError(f"{name} is {given(choice, 40)}; expected one of {', '.join(choices) or 'none'}.")


def _check_other(name: str, value: str, rule: Mapping[str, Any]) -> None:
    if not rule.get("enabled"):
        raise OptionError(f"{name} is {given(value, 40)}; only listed values can be chosen.")
    pattern = rule.get("validation_regex")
    if pattern and not re.match(pattern, value):
        said = rule.get("validation_message") or f"expected something like {pattern}"
        raise OptionError(f"{name} is {given(value, 40)}: {said}.")


def _whose(profiles: Sequence[Profile], projects: Collection[str]) -> str:
    others = sorted(set().union(*map(_names, profiles)))
    yours = ", ".join(sorted(projects)) or "in no project"
    return f"for members of {', '.join(others) or 'nobody'} only; you are {'of ' if projects else ''}{yours}."


def _names(profile: Profile) -> set[str]:
    names = profile.get(PROJECTS) or ()
    return {names} if isinstance(names, str) else set(names)
