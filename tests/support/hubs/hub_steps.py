"""Steps of a notebook's start and of a restart, at which a real hub, service or proxy gets a signal.

A test writes a `Plan`; the hub and the service of `springtide up` carry it out themselves when they reach the
step: their functions are wrapped by `in_hub`, which the hub's configuration calls, and by `in_service`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from inspect import isawaitable
from pathlib import Path
from typing import Any

VARIABLE = "SPRINGTIDE_TEST_STEPS"
"""Variable of the service with the file of the plan, and the state directory."""
HUB_STARTS = (
    "before the process",
    "in the child",
    "between fork and exec",
    "after the process",
    "waiting for the port",
    "when it listens",
    "while the hub stores",
    "when it is up",
)
"""Steps of a notebook's start in the hub."""
SERVICE_STARTS = ("before the reservation", "after the reservation")
"""Steps of a notebook's start in the service."""
HUB_RESTARTS = (
    "before the hub reads its notebooks",
    "after the hub has read its notebooks",
    "when the hub is prepared",
)
"""Steps of a hub's start."""
SERVICE_RESTARTS = (
    "when the store is open",
    "when the executor has started",
    "when the GPUs are matched",
    "when the epoch is taken",
    "when the engine runs",
    "when the notebooks are adopted",
)
"""Steps of a service's start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """At which step which of hub, service and proxy gets which signal."""

    step: str
    victim: str = "hub"
    name: str = "SIGKILL"

    def write(self, file: Path) -> None:
        """Have it carried out."""
        beside = file.with_name(f"{file.name}.new")
        beside.write_text(json.dumps(asdict(self)))
        beside.replace(file)


def configuration(plan: Path, state: Path) -> str:
    """Return the part of a hub's configuration that has the hub and its service carry out plans of the file."""
    return f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from hubs import hub_steps
hub_steps.in_hub({str(plan)!r}, {str(state)!r})
"""


class Steps:
    """The steps of this process; ``plan`` is the file of the plan, ``state`` the state directory of the hub."""

    def __init__(self, plan: str, state: str) -> None:
        self._plan, self._state = Path(plan), state

    def reach(self, step: str) -> bool:
        """Carry out the plan if it is for this step."""
        try:
            plan = Plan(**json.loads(self._plan.read_text()))
        except FileNotFoundError:
            return False
        if plan.step != step:
            return False
        self._plan.unlink(missing_ok=True)
        pid = process_of(plan.victim, self._state)
        if pid is not None:
            os.kill(pid, signal.Signals[plan.name])
        return True

    def at(self, owner: Any, name: str, *, before: str = "", after: str = "") -> None:
        """Wrap a function, which may be a coroutine, by the steps before and after it."""
        was = getattr(owner, name)

        async def awaited(result: Any) -> Any:
            found = await result
            self.reach(after)
            return found

        @wraps(was)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if before:
                self.reach(before)
            result = was(*args, **kwargs)
            if not after:
                return result
            if isawaitable(result):
                return awaited(result)
            self.reach(after)
            return result

        setattr(owner, name, wrapped)

    def in_the_child(self, notebooks: Any) -> None:
        """Wrap what the child of a hub does before it becomes a notebook server."""
        was = notebooks.before_exec

        def before_exec(state_dir: Path, parent: int) -> None:
            self.reach("in the child")
            was(state_dir, parent)
            if self.reach("between fork and exec"):
                time.sleep(3)  # the next hub looks for notebooks before the program runs

        notebooks.before_exec = before_exec


def in_hub(plan: str, state: str) -> None:
    """Wrap the steps of this process, which is a hub, and have its service do the same."""
    from jupyterhub import app, spawner, user  # noqa: PLC0415 - another process has no hub

    from springtide.hub_extension import configuration as ours  # noqa: PLC0415
    from springtide.scheduler.executors import notebooks  # noqa: PLC0415
    from springtide.spawner import local, quota  # noqa: PLC0415

    steps = Steps(plan, state)
    steps.at(quota.BuildQuota, "_mark", before="before the process")
    steps.at(local.LocalNotebook, "_store_state", before="after the process", after="waiting for the port")
    steps.at(local.LocalNotebook, "_until_it_listens", after="when it listens")
    steps.at(spawner.Spawner, "start_polling", before="while the hub stores")
    steps.at(user.User, "_wait_up", after="when it is up")
    steps.in_the_child(notebooks)
    reads = {"before": "before the hub reads its notebooks", "after": "after the hub has read its notebooks"}
    steps.at(app.JupyterHub, "init_spawners", **reads)
    steps.at(app.JupyterHub, "start", before="when the hub is prepared")

    managed = ours._managed

    def with_steps(*args: Any) -> dict[str, Any]:
        service = managed(*args)
        apart = Path(plan).parent / "service-steps"
        apart.mkdir(exist_ok=True)
        here = str(Path(__file__).parents[1])
        (apart / "sitecustomize.py").write_text(
            f"import sys\nsys.path.insert(0, {here!r})\nfrom hubs import hub_steps\nhub_steps.in_service()\n"
        )
        told = {VARIABLE: json.dumps([plan, state]), "PYTHONPATH": str(apart)}
        return {**service, "environment": {**service["environment"], **told}}

    setattr(ours, "_managed", with_steps)  # noqa: B010 - it passes on whatever it is given


def in_service() -> None:
    """Wrap the steps of this process if it is the service of a hub."""
    if VARIABLE not in os.environ or sys.orig_argv[1:3] != ["-m", "springtide.hub_extension"]:
        return
    from springtide.hub_extension.service import runtime  # noqa: PLC0415 - the service alone
    from springtide.scheduler.engine import engine, opening  # noqa: PLC0415
    from springtide.scheduler.executors.local import LocalExecutor  # noqa: PLC0415

    steps = Steps(*json.loads(os.environ[VARIABLE]))
    reserves = {"before": "before the reservation", "after": "after the reservation"}
    steps.at(engine.Engine, "reserve_workspace", **reserves)
    steps.at(runtime.Runtime, "_local_executor", before="when the store is open")
    steps.at(LocalExecutor, "start", after="when the executor has started")
    steps.at(opening, "match_gpus", after="when the GPUs are matched")
    steps.at(LocalExecutor, "take_over", after="when the epoch is taken")
    steps.at(runtime.Runtime, "_engine", after="when the engine runs")
    steps.at(runtime, "_adopt_workspaces", after="when the notebooks are adopted")


PROGRAMS: dict[str, Callable[[list[str]], bool]] = {
    "hub": lambda words: words[1:4] == ["-m", "springtide", "up"],
    "service": lambda words: words[1:3] == ["-m", "springtide.hub_extension"],
    "proxy": lambda words: "springtide.hub_extension.local_hub.proxy" in words,
}


def process_of(program: str, state: str) -> int | None:
    """Return the hub, service or proxy of a state directory, None if it does not run.

    A child looks like its hub until it runs its own program: the older one is the hub, whatever their pids.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            if PROGRAMS[program](line.decode(errors="replace").split("\0")):
                about = line + (entry / "environ").read_bytes()
                if state.encode() in about:
                    found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[19])
    return min(found, key=found.__getitem__, default=None)
