"""What the documents show works: Python is run, frameworks' examples compile, commands parse.

Blocks marked ``python`` run against a real service; ``py`` needs a framework that is not installed here and is
compiled only; ``console`` holds commands. The tutorial's blocks build on each other: `tests/story` runs them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from pools.pool_process import running_service

from springtide.hub_extension.command import main

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
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


RUN_ALL = """
import contextlib, json, os, runpy, sys, traceback
from pathlib import Path
from springtide.scheduler.client import Client, PoolError

def run(script):
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:
        return traceback.format_exc()
    return ""

said = {}
for script in map(Path, sys.argv[2:]):
    os.chdir(script.parent)
    sys.path[0] = str(script.parent)
    said[str(script)] = run(script)
    for name, module in list(sys.modules.items()):  # such as the example's
        if (getattr(module, "__file__", None) or "").startswith(str(script.parent)):
            del sys.modules[name]
    with Client(os.environ["SPRINGTIDE_URL"], os.environ["JUPYTERHUB_API_TOKEN"]) as user:
        for job in user.all_jobs(mine=True, state="queued,starting,running,pausing,cancelling,ending,paused"):
            with contextlib.suppress(PoolError):
                user.cancel(job.id)
Path(sys.argv[1]).write_text(json.dumps(said))
"""
"""Runs each script as a program of its own would run it, all in one process: imports take most of their time.

What a script sent and did not wait for is ended after it.
"""


@pytest.fixture(scope="module")
def said(service: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each Python block failed with, empty for one that ran."""
    scripts = {}
    for block in blocks("python"):
        directory = tmp_path_factory.mktemp("block")
        for example in (ROOT / "examples/digits").iterdir():
            (directory / example.name).write_bytes(example.read_bytes())
        script = directory / "block.py"
        script.write_text((CONFIGURATION if "configure(c)" in block.text else "") + block.text)
        scripts[str(block)] = script
    environment = {**os.environ, "SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan"}
    told = tmp_path_factory.mktemp("told") / "said.json"
    words = [sys.executable, "-c", RUN_ALL, str(told), *map(str, scripts.values())]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    failures = json.loads(told.read_text())
    return {name: failures[str(script)] for name, script in scripts.items()}


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_runs(block: Block, said: dict[str, str]) -> None:
    assert said[str(block)] == ""


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
