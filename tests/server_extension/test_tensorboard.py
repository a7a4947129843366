"""TensorBoard of jobs, by a notebook server: the real program, in front of a real pool."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil
import pytest
import tensorboard
from benches.server_extension_bench import NotebookServer, start_server, stop
from patience import PATIENCE_S

from springtide.scheduler.client import Client
from springtide.scheduler.user_environments import user_environments
from springtide.scheduler.wire import Job, Submission
from springtide.widgets.server_extension.boards import Boards
from springtide.widgets.tensorboard.copies import JobLogs

pytestmark = pytest.mark.process

TRAINING = """
import os
from tensorboardX import SummaryWriter
from springtide.training import current_job
with SummaryWriter(os.environ["SPRINGTIDE_OUTPUT_DIR"] + "/runs/first") as writer:
    for step in range(3):
        writer.add_scalar("own", 10 * step, step)
        current_job().report(step=step, loss=1 / (step + 1))
"""
MARK = {"X-XSRF-Protected": "1"}


def run(service: str, program: str, name: str, user: str = "susan") -> Job:
    """Run a job to its end."""
    with Client(service, user) as client:
        argv = [sys.executable, "-c", program]
        job = client.submit(Submission(argv=argv, kind="command", cwd="/tmp", project="vision", name=name))
        return until(lambda: client.job(job.id), lambda found: found.state == "succeeded")


def until(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not holds(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def page(client: httpx.Client, server: NotebookServer, *jobs: Job) -> tuple[str, str]:
    """Return the state and the text of a TensorBoard's page once it is not being made."""

    def look() -> tuple[str, str]:
        answer = client.get(f"{server.url}springtide/tensorboard/{'-'.join(job.id for job in jobs)}/")
        assert answer.status_code == 200, answer.text
        state = re.search(r'data-state="(\w+)"', answer.text)
        return (state[1] if state else "ready", answer.text)

    return until(look, lambda found: found[0] != "reading")


def data(client: httpx.Client, server: NotebookServer, name: str, *jobs: Job) -> Any:
    answer = client.get(f"{server.url}springtide/tensorboard/{'-'.join(job.id for job in jobs)}/data/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def boards(server: NotebookServer) -> list[psutil.Process]:
    """Return the TensorBoards that run in a notebook server."""
    running = psutil.Process(server.process.pid).children(recursive=True)
    return [each for each in running if is_board(each)]


@pytest.fixture(scope="module")
def trained(service: str) -> Job:
    return run(service, TRAINING, "bert")


def test_reported_metrics_and_own_event_files_are_shown(
    server: NotebookServer, trained: Job, service: str
) -> None:
    other = run(service, TRAINING.replace("10 *", "20 *"), "gpt")
    with server.client() as client:
        state, text = page(client, server, trained, other)
        assert state == "ready"
        assert "<tb-webapp" in text
        at = [f"{job.name}-{job.id}" for job in (trained, other)]
        expected = {f"{run}/{folder}" for run in at for folder in ("reported", "runs/first")}
        until(lambda: set(data(client, server, "runs", trained, other)), lambda found: found == expected)
        tag = "plugin/scalars/scalars?tag={}&run={}"
        points = data(client, server, tag.format("own", f"{at[1]}/runs/first"), trained, other)
        assert [point[1:] for point in points] == [[0, 0], [1, 20], [2, 40]]
        points = data(client, server, tag.format("loss", f"{at[0]}/reported"), trained, other)
        assert [point[1:] for point in points] == [[0, 1], [1, 0.5], [2, pytest.approx(1 / 3)]]


def test_a_running_job_is_followed(server: NotebookServer, service: str, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    program = f"""
import pathlib, time
from springtide.training import current_job
current_job().report(step=1, loss=1)
while not pathlib.Path({str(go_on)!r}).exists():
    time.sleep(0.05)
current_job().report(step=2, loss=0.5)
"""
    with Client(service, "susan") as pool, server.client() as client:
        argv = [sys.executable, "-c", program]
        job = pool.submit(Submission(argv=argv, kind="command", cwd="/tmp", project="vision", name="live"))
        assert page(client, server, job)[0] == "ready"
        asked = f"plugin/scalars/scalars?tag=loss&run=live-{job.id}/reported"
        until(lambda: data(client, server, "runs", job), lambda found: found == [f"live-{job.id}/reported"])
        assert [point[2] for point in data(client, server, asked, job)] == [1]
        go_on.touch()
        until(lambda: [point[2] for point in data(client, server, asked, job)], lambda found: found == [1, 0.5])


def test_a_job_without_metrics_says_so_and_so_does_one_that_is_not_hers(
    server: NotebookServer, service: str
) -> None:
    nothing = run(service, "print('nothing')", "quiet one")
    with server.client() as client:
        state, text = page(client, server, nothing)
        assert state == "failed"
        assert "“quiet one” has reported no metric and written no event file." in text
        state, text = page(client, server, Job(**{**fields(nothing), "id": "nosuchjob"}))
        assert state == "failed"
        assert "nosuchjob" in text


def test_what_is_new_is_added_to_a_copy_and_what_is_too_much_is_left_out(
    tmp_path: Path, service: str, trained: Job
) -> None:
    with Client(service, "susan") as client:
        JobLogs(client, trained, tmp_path).refresh()
        (copy,) = tmp_path.rglob("runs/first/events*")
        whole = client.output(trained.id, f"runs/first/{copy.name}")
        assert copy.read_bytes() == whole
        copy.write_bytes(b"*" * 20 + whole[20:-30])
        JobLogs(client, trained, tmp_path).refresh()
        assert copy.read_bytes() == b"*" * 20 + whole[20:]

        few = JobLogs(client, trained, tmp_path / "few", most=10)
        few.refresh()
        assert few.note.startswith("1 event file of “bert” (")
        assert few.note.endswith("left out: at most 10 B of a job are shown.")
        assert few.nothing == ""
        assert [path.parent.name for path in (tmp_path / "few").rglob("events*")] == ["reported"]


def fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__}


def test_nobody_else_opens_it(server: NotebookServer, lonely: NotebookServer, trained: Job) -> None:
    address = f"{server.url}springtide/tensorboard/{trained.id}"
    with server.client() as client:
        assert page(client, server, trained)[0] == "ready"
        asked = f"{address}/data/plugin/timeseries/timeSeries"
        body = {"requests": json.dumps([])}
        assert client.post(asked, data=body).status_code == 403  # as a page of another origin would
        assert client.post(asked, data=body, headers=MARK).status_code != 403
        assert client.get(address).headers["Location"].endswith(f"/{trained.id}/")
        for wrong in ("../api", f"{trained.id}/%2e%2e/x", "a" * 65, "-".join(["a"] * 21)):
            assert client.get(f"{server.url}springtide/tensorboard/{wrong}").status_code in {400, 404}, wrong
        socket = next(each.laddr for each in boards(server)[0].net_connections("unix") if each.laddr)
        assert Path(socket).parent.stat().st_mode & 0o077 == 0
        assert not any(each.status == "LISTEN" for each in boards(server)[0].net_connections("inet"))
    stranger = httpx.get(f"{address}/data/runs")
    assert stranger.status_code in {302, 403}
    with lonely.client() as client:
        assert "not started by a hub" in page(client, lonely, trained)[1]


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for temporary files whose path leaves room for that of a socket."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_it_ends_with_its_server_and_leaves_no_files(
    tmp_path: Path, short: Path, service: str, trained: Job
) -> None:
    environment = {"SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan", "TMPDIR": str(short)}
    server = start_server(tmp_path / "home", environment)
    try:
        with server.client() as client:
            assert page(client, server, trained)[0] == "ready"
        found = boards(server)
        assert len(found) == 1
        assert list(short.iterdir())
        server.process.kill()
        server.process.wait()
        assert not psutil.wait_procs(found, timeout=PATIENCE_S)[1]
        assert not list(short.iterdir())
    finally:
        stop(server)


def test_what_a_killed_one_left_is_removed(short: Path, service: str, trained: Job) -> None:
    environment = {
        **os.environ,
        "SPRINGTIDE_URL": service,
        "JUPYTERHUB_API_TOKEN": "susan",
        "TMPDIR": str(short),
    }
    command = [sys.executable, "-P", "-m", "springtide.widgets.tensorboard", trained.id]

    def begin() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        started = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe)
        assert started.stdout is not None
        while b'"ready"' not in (line := started.stdout.readline()):
            assert line
        return started

    first = begin()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert len(list(short.iterdir())) == 1
    second = begin()
    assert len(list(short.iterdir())) == 1
    second.communicate()
    assert not list(short.iterdir())


def test_a_long_path_of_temporary_files_is_no_obstacle(tmp_path: Path, service: str, trained: Job) -> None:
    deep = tmp_path / "a-folder-with-a-long-name" / "and-another-one-in-it-that-is-longer-still-and-more"
    deep.mkdir(parents=True)
    environment = {**os.environ, "SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan", "TMPDIR": str(deep)}
    command = [sys.executable, "-P", "-m", "springtide.widgets.tensorboard", trained.id]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as started:
        said = {"state": "reading"}
        while said["state"] == "reading":
            said = json.loads(started.stdout.readline())
        started.stdin.close()
    assert said["state"] == "ready", said


def processes() -> list[psutil.Process]:
    """Return the TensorBoards that this process has started."""
    return [each for each in psutil.Process().children() if is_board(each)]


def is_board(process: psutil.Process) -> bool:
    try:
        return "springtide.widgets.tensorboard" in process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return False


async def test_one_that_nobody_uses_ends_and_so_does_the_fifth_last(service: str, trained: Job) -> None:
    environment = {**os.environ, "SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan"}
    boards, idle = Boards(environment), Boards(environment, unused_s=0.1)
    ids = ["unknown1", "unknown2", "unknown3"]
    try:
        first = await boards.open(trained.id)
        for each in ids:
            await boards.open(each)
        assert await boards.open(trained.id) is first
        await boards.open("unknown4")
        assert boards.known(ids[0]) is None
        assert boards.known(trained.id) is first
    finally:
        for each in (*ids, "unknown4", trained.id):
            await boards.forget(each)
    assert not processes()
    await idle.open(trained.id)
    async with asyncio.timeout(PATIENCE_S):
        while processes():
            await asyncio.sleep(0.1)
    await idle.forget(trained.id)  # waits for the end that has begun


def test_without_tensorboard_it_says_how_to_install_it(tmp_path: Path, service: str, trained: Job) -> None:
    said = first_words(tmp_path, service, trained)
    assert said["state"] == "failed"
    assert said["words"].startswith("TensorBoard is not installed for this notebook server. To install it: ")
    assert "tensorboard" in said["words"].partition("To install it:")[2]


def test_an_environment_of_ones_own_with_tensorboard_is_used(tmp_path: Path, service: str, trained: Job) -> None:
    made = user_environments({"HOME": str(tmp_path)}, lambda _line: None).create("board")
    packages = next(made.path.glob("lib/python*/site-packages"))
    (packages / "tensorboard").symlink_to(Path(tensorboard.__file__).parent, target_is_directory=True)
    assert first_words(tmp_path, service, trained)["words"].startswith("Reading the metrics and event files of ")


def first_words(home: Path, service: str, job: Job) -> dict[str, str]:
    """Return what the program says first where the Python of the notebook server has no TensorBoard."""
    program = "import runpy, sys; sys.modules['tensorboard'] = None; sys.argv[0] = ''"
    program += "; runpy.run_module('springtide.widgets.tensorboard', run_name='__main__')"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "JUPYTER"))},
        "HOME": str(home),
        "SPRINGTIDE_URL": service,
        "JUPYTERHUB_API_TOKEN": "susan",
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program, job.id], env=environment, stdin=pipe, stdout=pipe
    ) as run:
        assert run.stdout is not None
        assert run.stdin is not None
        line = run.stdout.readline()
        run.stdin.close()
    return json.loads(line)
