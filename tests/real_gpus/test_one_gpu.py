"""Jobs on a real GPU: what the pool says of it is what the driver says, and pauses give it back.

`nvidia-smi` and PyTorch are the witnesses. The pool has all GPUs of the machine; each test uses one of them.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hubs.gpu_desk import GIB, PROGRAMS, Desk, asked
from hubs.hub_people import until
from pools.pool_process import ServiceProcess

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("real-gpus")]


def cells(desk: Desk) -> list[dict[str, Any]]:
    return [gpu for node in desk.get("/pool")["nodes"] for gpu in node["gpus"]]


def holders(desk: Desk) -> set[str]:
    """Return the kinds of holders of the pool's GPUs."""
    return {gpu["holder"]["kind"] for gpu in cells(desk) if gpu["holder"]}


def test_the_pool_has_the_gpus_of_the_driver(susan: Desk) -> None:
    assert [gpu["uuid"] for gpu in cells(susan)] == [uuid for (uuid,) in asked("uuid")]
    assert not any(node["simulated"] for node in susan.get("/pool")["nodes"])


def test_a_job_sees_its_gpu_alone_and_nothing_in_its_memory(susan: Desk) -> None:
    found = susan.sees(susan.submit("look.py"))
    known = dict(asked("uuid", "name"))
    assert found["count"] == 1
    assert known[found["visible"]] == found["name"]
    assert found["free"] > found["total"] - 2 * GIB


def test_its_use_is_measured(susan: Desk) -> None:
    job = susan.submit("busy.py", "25")

    def used() -> list[dict[str, Any]]:
        return [gpu for gpu in susan.get("/pool/gpus")["gpus"] if (gpu["utilization"] or 0) > 0.5]

    (gpu,) = until("use above one half", used, every=0.5)
    (said,) = [row for row in asked("uuid", "memory.total", "temperature.gpu") if row[0] == gpu["uuid"]]
    assert gpu["memory_used"] >= 8 * GIB
    assert gpu["memory_total"] == pytest.approx(float(said[1]) * (1 << 20), rel=0.02)
    assert abs(gpu["temperature"] - int(said[2])) < 20
    assert susan.result(job) == "done"
    series = susan.get(f"/jobs/{job}/usage")
    assert max(point["utilization"] or 0 for point in series["points"]) > 0.5


def test_an_owner_gets_all_of_the_gpu_and_the_borrower_ends_as_if_alone(susan: Desk, joe: Desk) -> None:
    alone = joe.result(joe.submit("train.py", "6", "0"))
    borrowed = joe.submit("train.py", "6", "0.15")
    until("two epochs", lambda: "step 2/" in joe.log(borrowed), every=0.2)
    owner = susan.sees(susan.submit("look.py", gpus=len(asked("uuid"))))
    assert owner["free"] > owner["total"] - 2 * GIB
    assert joe.result(borrowed) == alone
    shown = joe("show", borrowed)
    assert len(shown["attempts"]) == 2, shown


def test_a_killed_program_leaves_nothing_on_the_gpu(susan: Desk) -> None:
    job = susan.submit("busy.py", "600")
    until("its start", lambda: "step 1/" in susan.log(job), every=0.2)
    susan("cancel", job)
    susan.reached(job, "cancelled")
    found = susan.sees(susan.submit("look.py"))
    assert found["free"] > found["total"] - 2 * GIB


def test_a_gpu_that_others_compute_on_is_not_given_to_a_job(susan: Desk) -> None:
    words = [str(susan.python), str(PROGRAMS / "busy.py"), "600"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=susan.place)
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "step 1/1\n"
        job = susan.submit("look.py", gpus=len(asked("uuid")))
        until("the GPU of others", lambda: "foreign" in holders(susan), every=0.5)
        assert susan.state(job) == "queued"
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    assert susan.result(job)


def test_a_job_keeps_its_gpu_over_a_restart_of_the_service(susan: Desk, service: ServiceProcess) -> None:
    job = susan.submit("busy.py", "20", gpus=len(asked("uuid")))
    until("its start", lambda: "step 1/" in susan.log(job), every=0.2)
    service.kill()
    service.start()
    second = susan.submit("look.py")
    assert susan.state(second) == "queued"
    assert susan.result(job) == "done"
    assert susan.sees(second)["free"] > GIB
