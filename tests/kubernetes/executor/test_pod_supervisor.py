"""The supervisor in a pod: it runs one worker, SIGTERM requests a pause, and its exit code is the job's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from clusters.cluster import until
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExitKind
from springtide.scheduler.executors.kubernetes.ends import end_of
from springtide.scheduler.executors.kubernetes.homes import Home
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.objects.api_types import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
)
from springtide.scheduler.executors.kubernetes.objects.manifests import JOB_ROOT
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Node, Worker
from springtide.scheduler.project_tree import TreeFile, digest_of, pack
from springtide.scheduler.wire import ProjectTree

READY = "import os, signal, sys, time\nprint('ready', flush=True)\n"
SAVES = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n" + READY + "time.sleep(600)"
SAVES_SLOWLY = """
import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append("asked"))
print("ready", flush=True)
while not asked:
    time.sleep(0.01)
time.sleep(1.0)
sys.exit(75)
"""
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}time.sleep(600)"


class InPod:
    """A supervisor as a process, with the files that a pod would mount."""

    def __init__(self, state: Path, code: str, *, size: int = 1, grace: float = 20.0, **more: Any) -> None:
        settings = KubernetesSettings("pool", "springtide", state, ("image",), jobs_claim="jobs")
        records = LaunchRecords(settings, None)
        records.prepare_volume()
        placement = tuple(Worker(rank, "n1", (rank,)) for rank in range(size))
        key = AttemptKey("abc", 1)
        spec = AttemptSpec(
            key, 1, "a job", "vision", "susan", (sys.executable, "-S", "-c", code), placement, size, grace, **more
        )
        made = records.make_record(spec, "image", Home(), [Node("n", 8, resource="nvidia.com/gpu")] * size)
        records.save_record(made, {}, None, spec.packed)
        self.directory = records.layout.attempt(key)
        self.program = state / records.program / "supervisor"
        self.message = state / "termination-log"
        self.message.touch()
        seen = (
            (self.directory / "spec.json").read_text().replace(str(JOB_ROOT), str(records.layout.job("abc").root))
        )
        record = json.loads(seen)
        record |= (
            {"message": str(self.message)} if spec.tree else {"message": str(self.message), "cwd": str(state)}
        )
        (self.directory / "spec.json").write_text(json.dumps(record))
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, rank: int = 0, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", self.program, self.directory, str(rank)],
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
        )
        self.started.append(process)
        return process

    def log(self, rank: int = 0) -> str:
        with suppress(FileNotFoundError):
            return (self.directory / f"log.{rank}").read_text()
        return ""

    def ready(self) -> None:
        until(lambda: "ready\n" in self.log(), "the job is ready")

    def told(self, code: int) -> Any:
        """Return the end that the executor derives from the container's state."""
        ended = ContainerStateTerminated(exit_code=code, reason="Error", message=self.message.read_text())
        container = ContainerStatus(ContainerState(terminated=ended))
        status = PodStatus(phase="Failed", container_statuses=(container,))
        return end_of(Pod(ObjectMeta(), PodSpec(node_name="n1"), status))


@pytest.fixture
def in_pod(tmp_path: Path) -> Iterator[Callable[..., InPod]]:
    made: list[InPod] = []

    def make(code: str, **more: Any) -> InPod:
        made.append(InPod(tmp_path / str(len(made)), code, **more))
        return made[-1]

    yield make
    for pod in made:
        for process in pod.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.mark.parametrize("code", [0, 3, 75, 255])
def test_the_pods_exit_code_is_the_jobs(in_pod: Callable[..., InPod], code: int) -> None:
    pod = in_pod(f"print('hello'); raise SystemExit({code})")
    output, _ = pod.start().communicate(timeout=PATIENCE_S)
    assert pod.started[0].returncode == code
    assert output == b"hello\n"
    assert pod.log() == "hello\n"
    end = pod.told(code)
    assert (end.kind, end.code, end.signal) == (ExitKind.EXITED, code, None)


def test_a_signal_is_told_apart_from_the_code_that_looks_like_it(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod("import os; os.kill(os.getpid(), 11)")
    assert pod.start().wait(PATIENCE_S) == 139
    assert (pod.told(139).code, pod.told(139).signal) == (None, 11)
    other = in_pod("raise SystemExit(139)")
    assert other.start().wait(PATIENCE_S) == 139
    assert (other.told(139).code, other.told(139).signal) == (139, None)


def test_the_clusters_sigterm_asks_for_a_pause(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod(SAVES)
    process = pod.start()
    pod.ready()
    assert not (pod.directory / "pause").exists()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 75
    assert (pod.directory / "pause").exists()
    assert pod.told(75).killed is False


def test_what_does_not_pause_is_killed_after_its_grace(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod(STUBBORN, grace=0.3)
    process = pod.start()
    pod.ready()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 137
    assert (pod.told(137).signal, pod.told(137).killed) == (9, True)


def test_a_request_to_kill_is_not_taken_for_a_pause(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod(SAVES, grace=600.0)
    process = pod.start()
    pod.ready()
    (pod.directory / "kill").touch()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 75
    assert json.loads((pod.directory / "exit.0.json").read_text())["paused"] is False


def test_a_request_to_end_now_ends_a_pause_without_a_second_signal(in_pod: Callable[..., InPod]) -> None:
    """Containerd signals a container once, however often it is stopped."""
    pod = in_pod(STUBBORN, grace=600.0)
    record = json.loads((pod.directory / "spec.json").read_text())
    (pod.directory / "spec.json").write_text(json.dumps(record | {"kill_after": 0.1}))
    process = pod.start()
    pod.ready()
    process.send_signal(signal.SIGTERM)
    until((pod.directory / "pause").exists, "the pause is requested")
    (pod.directory / "kill").touch()
    (pod.directory / "now").touch()
    assert process.wait(PATIENCE_S) == 137
    assert (pod.told(137).signal, pod.told(137).killed) == (9, True)


def test_a_pod_that_is_ended_for_good_has_its_grace_to_save(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod(SAVES_SLOWLY, grace=600.0)
    record = json.loads((pod.directory / "spec.json").read_text())
    (pod.directory / "spec.json").write_text(json.dumps(record | {"kill_after": 0.1}))
    process = pod.start()
    pod.ready()
    (pod.directory / "kill").touch()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 75


def test_a_program_that_is_not_there_is_refused_in_words(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod("pass")
    record = json.loads((pod.directory / "spec.json").read_text())
    (pod.directory / "spec.json").write_text(json.dumps(record | {"argv": ["no-such-program"]}))
    code = pod.start().wait(PATIENCE_S)
    end = pod.told(code)
    assert end.kind is ExitKind.REFUSED
    assert "no-such-program" in end.detail


def test_a_worker_that_ran_once_never_runs_again(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod("print('ran')")
    pod.start().wait(PATIENCE_S)
    pod.message.write_text("")
    code = pod.start().wait(PATIENCE_S)
    assert pod.log() == "ran\n"
    assert pod.told(code).kind is ExitKind.LOST


def test_each_of_a_gang_finds_its_own_place(in_pod: Callable[..., InPod]) -> None:
    names = ("RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG", "IMAGE_SAYS")
    pod = in_pod(f"import json, os; print(json.dumps([os.environ[name] for name in {names}]))", size=3)
    for rank in range(3):
        pod.start(rank, IMAGE_SAYS="hello").wait(PATIENCE_S)
    said = [json.loads(pod.log(rank)) for rank in range(3)]
    assert [each[0] for each in said] == ["0", "1", "2"] == [each[2] for each in said]
    assert {(each[1], each[3], each[4], each[6]) for each in said} == {("3", "w0.st-abc-1", "29500", "hello")}
    assert [json.loads(each[5])["task"]["index"] for each in said] == [0, 1, 2]


def test_gpus_that_the_node_names_are_shown_to_cuda(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod("import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    pod.start(NVIDIA_VISIBLE_DEVICES="GPU-1,GPU-2").wait(PATIENCE_S)
    assert pod.log() == "GPU-1,GPU-2\n"


def test_a_message_that_the_exit_code_belies_is_not_believed(in_pod: Callable[..., InPod]) -> None:
    pod = in_pod("pass")
    pod.message.write_text(json.dumps({"kind": "exited", "at": 1.0, "code": 0}))
    assert pod.told(3).code == 3
    pod.message.write_text("Traceback: no module")
    assert (pod.told(1).code, pod.told(1).detail) == (1, "Traceback: no module")


def test_the_first_pod_of_a_gang_makes_the_copy_of_the_project_and_the_others_wait(
    in_pod: Callable[..., InPod], tmp_path: Path
) -> None:
    packed = pack({"train.py": TreeFile(b"")}, {})
    root = str(tmp_path / "study")
    tree = ProjectTree(root=root, digest=digest_of(packed))
    pods = in_pod("import os; print(os.listdir())", size=2, cwd=root, tree=tree, packed=packed)
    waiting = pods.start(1)
    until((pods.directory / "supervisor.1.json").exists, "the second supervisor")
    assert waiting.poll() is None
    assert pods.start(0).wait(PATIENCE_S) == 0
    assert waiting.wait(PATIENCE_S) == 0
    assert (pods.directory / "log.1").read_bytes().endswith(b"['train.py']\n")
