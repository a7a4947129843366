"""The images are built from a part of the tree: it has all that the wheel is made of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from clusters import node_images

ROOT = Path(__file__).parents[2]


def wheel_parts() -> set[str]:
    """The files and directories at the top of the tree from which a wheel takes something."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = [
        *wheel["only-include"],
        *wheel["force-include"],
        *wheel["shared-data"],
        *project["project"]["license-files"],
        project["project"]["readme"],
        "pyproject.toml",
    ]
    return {Path(name).parts[0] for name in named}


def sent_to_the_build() -> set[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


@pytest.mark.parametrize("part", sorted(wheel_parts()))
def test_each_part_of_the_wheel_is_sent_to_the_build_of_the_images(part: str) -> None:
    assert part in sent_to_the_build(), f"add !{part} to .dockerignore"


def test_a_change_of_anything_sent_needs_new_images() -> None:
    watched = {Path(name).parts[0] for name in node_images.SOURCES}
    assert sent_to_the_build() <= watched
