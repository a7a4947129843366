"""The pool beside a hub that is set up as zero-to-jupyterhub's, with the values of the guide, on real nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.cluster import Cluster
from clusters.existing_hub import Beside, beside_a_hub
from clusters.kube_product import Member, member
from clusters.real_node import RealNode

TRAINING = """
from pathlib import Path
from springtide.widgets import pool
go = Path.home() / "go"
def train(go, steps):
    import time
    from pathlib import Path
    from springtide.training import current_job
    job = current_job()
    found = job.restore()
    total, done = found.state if found else (0, 0)
    for step in range(done, steps):
        while step == steps // 2 and not Path(go).exists():
            if job.should_pause():
                job.exit_for_pause()
            time.sleep(0.05)
        total += step
        job.report(step=step + 1, of=steps)
        job.save((total, step + 1), step=step + 1)
    return total
job = pool.submit(train, str(go), 10, gpus=1, name="first")
print(job.id)
"""


@pytest.fixture
def installed(
    cluster: Cluster, real_node: RealNode, real_build_node: RealNode, tmp_path: Path
) -> Iterator[Beside]:
    nodes = {node.name: node for node in (real_node, real_build_node)}
    with beside_a_hub(cluster, nodes, tmp_path, {"vision": ["susan"]}) as made:
        yield made


@pytest.fixture
def susan(installed: Beside) -> Iterator[Member]:
    with member(installed, "susan") as somebody:
        yield somebody


def test_a_job_from_a_notebook_of_that_hub_is_paused_resumes_and_gives_its_result(
    installed: Beside, susan: Member
) -> None:
    susan.notebook.start(gpus=1)
    notebook = installed.part("singleuser-server")
    assert notebook["spec"]["nodeName"] == "real-build"
    assert susan.pool.build_quota("susan").held == 1
    job = susan.notebook.run(TRAINING).split()[-1]
    susan.until("half is done", job, lambda each: each.progress.step == 5)
    [pod] = installed.train_pods(job)
    assert pod["spec"]["nodeName"] == "real-train"
    homes = [each for each in pod["spec"]["volumes"] if each["name"] == "home"]
    assert homes == [{"name": "home", "persistentVolumeClaim": {"claimName": "claim-susan"}}]

    susan.notebook.run("job.pause()")
    susan.until("it is paused", job, lambda each: each.state == "paused")
    susan.notebook.run("job.resume()")
    again = susan.until("it runs again", job, lambda each: (each.state, each.attempt) == ("running", 2))
    assert again.attempts[1].resumed_from == 5
    susan.notebook.run("go.touch()")
    assert susan.notebook.run("print(job.result())").split()[-1] == str(sum(range(10)))
    susan.notebook.stop()
