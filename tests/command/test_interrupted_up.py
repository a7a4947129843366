"""`springtide up` after its hub, proxy or service was killed at any step of a start: the next start works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hubs.hub_people import Hub, until
from patience import PATIENCE_S

from springtide.hub_extension.local_hub.orphans import PROXY, SERVICE, orphans

pytestmark = pytest.mark.xdist_group("hub-interrupted-up")

STEPS = """
import os, pathlib, signal
from jupyterhub import app, proxy
from jupyterhub.services import service

PLANNED = pathlib.Path({planned!r})

def reach(step, pid=None):
    if PLANNED.exists() and PLANNED.read_text() == step:
        PLANNED.unlink()
        os.kill(os.getpid() if pid is None else pid, signal.SIGKILL)

def around(owner, name, before="", after="", pid=lambda _: None):
    was = getattr(owner, name)
    async def wrapped(self, *args, **kwargs):
        reach(before)
        result = await was(self, *args, **kwargs)
        reach(after, pid(self))
        return result
    setattr(owner, name, wrapped)

def popen_of(module, step):
    was = module.Popen
    class Popen(was):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            reach(step)
    module.Popen = Popen

import jupyterhub.spawner
popen_of(proxy, "proxy started, hub killed")
popen_of(jupyterhub.services.service, "service started, hub killed")
around(app.JupyterHub, "init_spawners", before="before the proxy")
around(service.Service, "start", before="before the service", after="service killed", pid=lambda one: one.proc.pid)
around(proxy.ConfigurableHTTPProxy, "start", after="proxy killed", pid=lambda one: one.proxy_process.pid)
"""

KILLED_AT = [
    "before the proxy",
    "proxy started, hub killed",
    "before the service",
    "service started, hub killed",
    "service killed",
    "proxy killed",
]


@pytest.fixture
def started(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "state", STEPS.format(planned=str(tmp_path / "planned")))


@pytest.mark.parametrize("step", KILLED_AT)
def test_a_start_that_was_interrupted_can_be_repeated(started: Hub, tmp_path: Path, step: str) -> None:
    (tmp_path / "planned").write_text(step)
    try:
        interrupted = subprocess.Popen(
            started.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        until("the step", lambda: not (tmp_path / "planned").exists())
        if step == "proxy killed":  # the hub starts another one
            until("the hub", started.answers)
            interrupted.kill()
        interrupted.wait(PATIENCE_S)
        started.start()
        assert started.answers()
    finally:
        started.stop()


def test_a_service_whose_hub_is_killed_while_it_starts_leaves(started: Hub, tmp_path: Path) -> None:
    (tmp_path / "planned").write_text("service started, hub killed")
    try:
        hub = subprocess.Popen(
            started.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        hub.wait(PATIENCE_S)
        until("the end of the service", lambda: not list(orphans(started.state_dir, (SERVICE,))))
    finally:
        started.stop()


def test_an_orphan_that_does_not_obey_is_killed_and_others_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from springtide.hub_extension.local_hub import orphans as module  # noqa: PLC0415

    monkeypatch.setattr(module, "LEAVE_WITHIN_S", 0.2)
    program = tmp_path / "springtide" / "hub_extension" / "local_hub"
    program.mkdir(parents=True)
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    )
    for package in (program, program.parent, program.parent.parent):
        (package / "__init__.py").touch()
    (program / "proxy.py").write_text(stubborn)

    def run(state: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "SPRINGTIDE_STATE_DIR": state}
        one = subprocess.Popen([sys.executable, "-m", PROXY], env=env, stdout=subprocess.PIPE, cwd=tmp_path)
        assert one.stdout is not None
        one.stdout.readline()
        return one

    with run("/mine") as mine, run("/mine/other") as other:
        module.end_orphans(Path("/mine"))
        assert mine.poll() == -signal.SIGKILL
        assert other.poll() is None
        other.kill()
