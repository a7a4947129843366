"""What the documents show works: Python is run, frameworks' examples compile, commands parse.

Blocks marked ``python`` run against a real service; ``py`` needs a framework that is not installed here and is
compiled only; ``console`` holds commands. The tutorial's blocks build on each other: `tests/story` runs them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from pool_process import running_service

from springtide.hub_extension.command import main
from springtide.scheduler.client import Client, PoolError

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
UNFINISHED = "queued,starting,running,pausing,paused"
CONFIGURATION = "from traitlets.config import Config\nc = Config()\nc.Springtide.accounts = 'shared'\n"


@dataclass(frozen=True)
class Block:
    file: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    found = []
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if file.name == "tutorial.md":
            continue
        text = file.read_text()
        for fence in FENCE.finditer(text):
            indent, language, body = fence.groups()
            if language in languages:
                lines = [line.removeprefix(indent) for line in body.splitlines()]
                found.append(Block(file, text.count("\n", 0, fence.start()) + 2, language, "\n".join(lines)))
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("pool")) as url:
        yield url


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_runs(block: Block, service: str, tmp_path: Path) -> None:
    for example in (ROOT / "examples/digits").iterdir():
        (tmp_path / example.name).write_bytes(example.read_bytes())
    script = tmp_path / "block.py"
    script.write_text((CONFIGURATION if "configure(c)" in block.text else "") + block.text)
    environment = {**os.environ, "SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan"}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with Client(service, "susan") as susan:  # what the block sent and did not wait for
        for job in susan.all_jobs(mine=True, state=UNFINISHED):
            with suppress(PoolError):
                susan.cancel(job.id)


@pytest.mark.parametrize("block", blocks("py"), ids=str)
def test_frameworks_examples_compile(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_commands_parse(block: Block) -> None:
    for line in block.text.splitlines():
        words = shlex.split(line)
        if words[0] != "springtide":
            continue
        context = click.Context(main)
        name, command, rest = main.resolve_command(context, words[1:])
        assert command is not None, line
        command.make_context(name, list(rest), parent=context)


def test_links_lead_somewhere() -> None:
    dead = [
        f"{file.relative_to(ROOT)}: {target}"
        for file in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")))
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text())
        if not (file.parent / target).exists()
    ]
    assert dead == []


def test_the_files_that_contributors_are_sent_to_are_there() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    named = re.findall(r"`([a-z_]+/[\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    paths = [name for name in named if name.partition("/")[0] in folders]
    assert len(paths) > 30
    assert [name for name in paths if not (ROOT / name).exists()] == []
