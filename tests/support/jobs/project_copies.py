"""The copy of a captured project, made as the supervisor of a job makes it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from springtide.scheduler.capture import Captured
from springtide.scheduler.executors.environment import outside_folders, repositories
from springtide.scheduler.executors.supervisor.tree import make_tree


def copy_of(captured: Captured, job: Path) -> Path:
    """Make the copy of the captured project in the folder of a job, and return it."""
    project = captured.project
    assert project is not None
    tree = job / "work" / project.root.name
    if not tree.exists():
        (job / "work").mkdir(parents=True, exist_ok=True)
        packed = job / "project.tree"
        packed.write_bytes(project.packed)
        described = project.described()
        make_tree(
            {
                "tree": str(tree),
                "packed": str(packed),
                "root": described.root,
                "cwd": place_of(captured, tree),
                "outside": outside_folders(described),
                "repositories": repositories(described),
            }
        )
    return tree


def place_of(captured: Captured, tree: Path) -> str:
    """Return the working directory of the job: the same place in its copy."""
    assert captured.project is not None
    return str(tree / Path(captured.cwd).relative_to(captured.project.root))


def run_copy(captured: Captured, job: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run captured work in its copy, as a job does."""
    tree, code = copy_of(captured, job), job / "code"
    for name, content in captured.files.items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_bytes(content)

    def resolved(text: str) -> str:
        return text.replace("{code}", str(code)).replace("{project_tree}", str(tree))

    variables: dict[str, Any] = {name: resolved(value) for name, value in captured.env.items()}
    return subprocess.run(
        [resolved(word) for word in captured.argv],
        cwd=place_of(captured, tree),
        env={"PATH": os.environ["PATH"], **variables, **env},
        capture_output=True,
        text=True,
        check=False,
    )
