"""Commands that Ctrl-C ends: quietly, with the exit code of shells, whatever they do at that moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("interruptible")]
SLOW = """
import os, time
print("imported", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("module", "subcommand"), [("click.py", "jobs"), ("httpx.py", "jobs"), ("yaml.py", "plan")]
)
@pytest.mark.parametrize("command", [["-m", "springtide"], [str(Path(sys.executable).with_name("springtide"))]])
def test_an_interrupted_import_is_no_traceback(
    tmp_path: Path, module: str, subcommand: str, command: list[str]
) -> None:
    (tmp_path / module).write_text(SLOW)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, *command, subcommand, "pool.yaml"]
    with subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "imported\n"
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, errors.strip()) == (130, "")
