"""The whole product on real nodes: notebook, train jobs, pause, resume, an upgrade and a killed service."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.control_plane import until
from clusters.kube_product import Member, Product

from springtide.scheduler.wire import Submission

STEPS = 20
TRAINING = """
def train(data, steps):
    import hashlib, time
    from pathlib import Path
    from springtide.training import current_job
    job = current_job()
    found = job.restore()
    weights, done = found.state if found else ("", 0)
    for step in range(done, steps):
        shard = Path(data, f"shard-{step * 2 // steps}")
        while not shard.exists():
            if job.should_pause():
                job.exit_for_pause()
            time.sleep(0.05)
        weights = hashlib.sha256(f"{weights} {shard.read_text()} {step}".encode()).hexdigest()
        print("step", step + 1, "of", steps, flush=True)
        job.report(step=step + 1, of=steps)
        job.save((weights, step + 1), step=step + 1)
    return weights
"""
SHARDS = ("the first half", "the second half")


def test_a_job_from_a_notebook_is_paused_and_resumes_whatever_happens_to_the_service(
    installed: Product, susan: Member, joe: Member, tmp_path: Path
) -> None:
    susan.notebook.start(gpus=1)
    notebook = installed.part("singleuser-server")
    assert susan.pool.build_quota("susan").held == 1
    job = susan_trains(susan)
    half = susan.until("half is done", job, lambda each: each.progress.step == STEPS / 2)
    assert (half.user, half.project, half.state, half.attempt) == ("susan", "vision", "running", 1)
    assert [gpu.borrowed for gpu in half.held] == [False, True]
    [pod] = installed.train_pods(job)
    assert (pod["spec"]["nodeName"], notebook["spec"]["nodeName"]) == ("real-train", "real-build")
    assert image_of(pod) == image_of(notebook)

    inside = f"springtide exec {job} -- sh -c 'echo $PWD; cat /etc/hostname'"
    said = susan.notebook.run(f"import subprocess\nprint(subprocess.getoutput({inside!r}))")
    place, name = said.split()
    assert place.startswith("/springtide/job/work/")
    assert name == pod["metadata"]["name"]

    service = installed.part("service")
    installed.upgrade({"service": {"settings": {"grace": 45}}})
    assert installed.part("service")["metadata"]["uid"] != service["metadata"]["uid"]
    assert [each["metadata"]["uid"] for each in installed.train_pods(job)] == [pod["metadata"]["uid"]]
    assert (susan.pool.job(job).state, susan.pool.job(job).attempt) == ("running", 1)

    own = joe.pool.submit(Submission(argv=["python3", "-c", "print('joe was here')"], name="joes own")).id
    installed.kill("service")
    joe.until("joe's job has run", own, lambda each: each.state == "succeeded")
    assert "joe was here" in joe.pool.log(own).text
    resumed = susan.until("her job resumes", job, lambda each: (each.state, each.attempt) == ("running", 2))
    assert (resumed.attempts[0].state, resumed.attempts[0].exit_code) == ("paused", 75)
    assert resumed.attempts[0].ended_why is not None
    assert "speech" in resumed.attempts[0].ended_why.text
    assert resumed.attempts[1].resumed_from == STEPS / 2
    assert installed.part("service")["status"]["containerStatuses"][0]["restartCount"] == 1

    result = susan.notebook.run(f"write(1, {SHARDS[1]!r})\nprint(job.result())").split()[-1]
    assert result == undisturbed(tmp_path / "alone")
    steps = [int(number) for number in re.findall(r"step (\d+) of", susan.notebook.run("print(job.logs())"))]
    assert steps == list(range(1, STEPS + 1)), "each step was trained exactly once"
    assert installed.part("singleuser-server")["metadata"]["uid"] == notebook["metadata"]["uid"]
    installed.kill("proxy")
    until(lambda: reaches(susan), "her notebook is within reach of the new proxy", timeout_s=120)
    susan.notebook.stop()
    until(lambda: susan.pool.build_quota("susan").held == 0, "the notebook's GPU is free")


def reaches(member: Member) -> bool:
    """Return whether the proxy leads to the member's notebook; a new one knows the hub alone."""
    with contextlib.suppress(Exception):
        return member.notebook.run("print('here')").split()[-1] == "here"
    return False


def image_of(pod: Mapping[str, Any]) -> str:
    """The image of a pod's one container."""
    [container] = pod["spec"]["containers"]
    return str(container["image"])


def susan_trains(susan: Member) -> str:
    """Submit a training on two GPUs from the notebook, with half of its data; tells the job's id."""
    susan.notebook.run(
        "from pathlib import Path\n"
        "from springtide.widgets import pool\n"
        "data = Path.cwd()\n"
        "def write(number, text):\n"
        "    (data / 'new').write_text(text)\n"
        "    (data / 'new').rename(data / f'shard-{number}')\n"
        f"write(0, {SHARDS[0]!r})\n"
        f"{TRAINING}"
    )
    submit = f"job = pool.submit(train, data, {STEPS}, gpus=2, name='susans training')\nprint(job.id)"
    return susan.notebook.run(submit).split()[-1]


def undisturbed(directory: Path) -> str:
    """What the training comes to when it runs by itself, outside any pool."""
    directory.mkdir()
    for number, text in enumerate(SHARDS):
        (directory / f"shard-{number}").write_text(text)
    program = f"{TRAINING}\nprint(train('.', {STEPS}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, check=True, capture_output=True, text=True
    )
    return done.stdout.split()[-1]
