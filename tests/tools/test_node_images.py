"""A test takes the images of the nodes as they were built from this tree, and builds none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from clusters import node_images
from clusters.cluster_tools import ToolsMissingError

TREE = ("pyproject.toml", "scheduler/model.py", "helm/images/Dockerfile")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that images are made of, beside a small tree on a machine that can run nodes."""
    for name in TREE:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(name)
    monkeypatch.setattr(node_images, "ROOT", tmp_path / "tree")
    monkeypatch.setattr(node_images, "SOURCES", ("pyproject.toml", "scheduler", "helm/images"))
    monkeypatch.setattr(node_images, "check_machine", lambda: None)
    (tmp_path / "pause").write_text("program")
    return tmp_path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"SPRINGTIDE_TOOLS": str(tmp_path / "cache")}


def unpacked(programs: Path, environment: dict[str, str]) -> Path:
    """Make what a build leaves, and tell where."""
    with pytest.raises(ToolsMissingError) as refused, node_images.images(programs, environment):
        pass
    ready = Path(str(refused.value).partition("(")[2].partition(")")[0])
    (ready / "containerd").mkdir(parents=True)
    return ready


def test_images_that_are_not_built_are_asked_for(programs: Path, environment: dict[str, str]) -> None:
    with (
        pytest.raises(ToolsMissingError, match=r"no images of the nodes built from this tree.*run `make tools`"),
        node_images.images(programs, environment),
    ):
        pass


def test_images_that_are_built_are_taken(programs: Path, environment: dict[str, str]) -> None:
    ready = unpacked(programs, environment)
    with node_images.images(programs, environment) as found:
        assert found == ready / "containerd"
    node_images.build(programs, environment)  # nothing to do: it would need buildah


@pytest.mark.parametrize("name", TREE)
def test_a_changed_tree_needs_images_of_its_own(programs: Path, environment: dict[str, str], name: str) -> None:
    unpacked(programs, environment)
    (programs / "tree" / name).write_text("changed")
    with pytest.raises(ToolsMissingError), node_images.images(programs, environment):
        pass


def test_images_of_the_trees_used_last_are_kept_and_those_in_use(
    programs: Path, environment: dict[str, str]
) -> None:
    first = unpacked(programs, environment)
    with node_images.images(programs, environment):
        others = []
        for number in range(node_images.KEPT + 1):
            (programs / "tree" / TREE[0]).write_text(f"tree {number}")
            others.append(unpacked(programs, environment))
        for age, each in enumerate(reversed([first, *others])):
            os.utime(each, (1000 - age, 1000 - age))
        node_images._remove_unused(programs / "cache")
        assert [each.exists() for each in (first, *others)] == [True, False, *[True] * node_images.KEPT]
