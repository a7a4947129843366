"""The time from nothing to a first result, as a newcomer: ``python benchmarks/bench_first_result.py``.

In an empty directory, with an empty home and so without any package that pip has kept, does the steps of the
tutorial from its own text up to the first result of a job: the command that installs and starts everything, then
log-in, notebook and job in a browser. Prints the seconds of each. The working tree is copied; the port 8000
has to be free. Reading and typing take a person longer than this program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from browsers.browser import running_browser
from hubs.tutorial import Command, Newcomer, Step, steps

ROOT = Path(__file__).parents[1]
URL = "http://127.0.0.1:8000"
FIRST_RESULT = "Run a first job"
GOAL_S = 300.0
INSTALL_TIMEOUT_S = 900.0
KEPT = ("PATH", "LANG", "PIP_CERT", "PIP_FIND_LINKS", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
"""What the newcomer's shell has of this one's variables: where programs are, and the way to the package index."""


class NewHub:
    """The hub that the tutorial's command starts, with what a browser needs of it."""

    url = URL

    def __init__(self, place: Path) -> None:
        self.tree = place / "springtide"
        self.home = place / "home"
        self.home.mkdir()
        self.log = place / "printed.txt"

    @property
    def password(self) -> str:
        """The password that the hub has printed."""
        (line,) = [line for line in self.log.read_text().splitlines() if line.startswith("  Password ")]
        return line.split()[1].rstrip(",")

    def copy_tree(self) -> None:
        """Copy the files of the tree, as a checkout has them."""
        words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in listed:
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)

    @contextlib.contextmanager
    def started(self, command: str) -> Iterator[float]:
        """Run the tutorial's command until the hub says that it is ready; end the hub and its notebooks later.

        Gives the processor time of what the command did before it started the hub, in seconds.
        """
        environment = {name: os.environ[name] for name in KEPT if name in os.environ} | {"HOME": str(self.home)}
        with self.log.open("wb") as printed:
            process = subprocess.Popen(
                command.split(),
                cwd=self.tree,
                env=environment,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + INSTALL_TIMEOUT_S
            while "Springtide is ready" not in self.log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{command!r} started no hub:\n{self.log.read_text()[-4000:]}")
                time.sleep(0.1)
            times = psutil.Process(process.pid).cpu_times()
            yield times.children_user + times.children_system
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            process.wait(60)
            self._end_what_is_left()

    def _end_what_is_left(self) -> None:
        mark = str(self.home).encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)


def measured(hub: NewHub, todo: list[Step]) -> Iterator[tuple[str, float]]:
    """Do the steps, and yield the title and the seconds of each."""
    first, *others = todo
    (command,) = [action.text for action in first.actions if isinstance(action, Command)]
    before = time.monotonic()
    with hub.started(command) as installing_s:
        yield f"{first.title} ({command})", time.monotonic() - before
        print(f"  of which installing takes {installing_s:.0f} s of one processor")
        with running_browser() as browser:
            newcomer = Newcomer(browser, hub)
            for step in others:
                before = time.monotonic()
                for action in step.actions:
                    newcomer.do(action)
                yield step.title, time.monotonic() - before


def main() -> None:
    with contextlib.suppress(httpx.ConnectError):
        httpx.get(URL, timeout=5)
        sys.exit(f"Something answers at {URL}. Stop it first: the tutorial's hub listens there.")
    every = steps()
    todo = every[: [step.title for step in every].index(FIRST_RESULT) + 1]
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}")
    total = 0.0
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # as root, notebooks and jobs run as accounts of their own
        hub = NewHub(Path(place))
        hub.copy_tree()
        for title, seconds in measured(hub, todo):
            total += seconds
            print(f"{title:<40} {seconds:7.1f} s", flush=True)
    print(f"{'from nothing to the first result':<40} {total:7.1f} s  (goal: {GOAL_S:.0f} s)")
    sys.exit(total > GOAL_S)


if __name__ == "__main__":
    main()
