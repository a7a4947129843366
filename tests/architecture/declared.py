"""What ``pyproject.toml`` declares: the packages of each extra, and what they bring along in this environment."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from product_modules import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
OWN_NAME = "springtide"


@cache
def providers() -> Mapping[str, frozenset[str]]:
    """Return the packages that each import may come from."""
    return {
        name: frozenset(canonicalize_name(each) for each in names)
        for name, names in packages_distributions().items()
    } | {
        "airflow": frozenset({"apache-airflow-core"}),
        "wandb": frozenset({"wandb"}),
    }  # which have environments of their own


def requirements(extras: Collection[str]) -> list[Requirement]:
    """Return what Springtide with these extras asks for by name; an extra that names another is resolved."""
    found, left, seen = [Requirement(each) for each in PROJECT["dependencies"]], list(extras), set[str]()
    while left:
        extra = left.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for each in map(Requirement, EXTRAS[extra]):
            if each.name == OWN_NAME:
                left.extend(each.extras)
            else:
                found.append(each)
    return found


def closure(extras: Collection[str]) -> set[str]:
    """Return the packages that an environment with only these extras has, by their canonical names."""
    found: set[str] = set()
    left = [(each.name, frozenset(each.extras)) for each in requirements(extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        name, asked = left.pop()
        if (name, asked) not in seen:
            seen.add((name, asked))
            found.add(canonicalize_name(name))
            left.extend(_required_by(name, asked))
    return found


def _required_by(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    try:
        required = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for each in map(Requirement, required):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield each.name, frozenset(each.extras)
