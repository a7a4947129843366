"""The rendezvous of an attempt's workers, in the variables of each framework."""

from __future__ import annotations

import json

from springtide.scheduler.executors.rendezvous import PLACE, Rendezvous, template, worker_environment

MEETING = Rendezvous("w0", 5000, ("w0:2222", "w1:2222", "w2:2222"), gpus=2)


def test_each_framework_finds_its_gang() -> None:
    env = worker_environment(template(MEETING, gang=True), 1)
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"], env["MASTER_PORT"]) == ("1", "3", "w0", "5000")
    assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"], env["NODE_RANK"]) == ("0", "1", "1")
    assert json.loads(env["TF_CONFIG"]) == {
        "cluster": {"worker": ["w0:2222", "w1:2222", "w2:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    assert (env["JAX_COORDINATOR_ADDRESS"], env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == (
        "w0:5000",
        "3",
        "1",
    )
    assert (env["OMPI_COMM_WORLD_SIZE"], env["OMPI_COMM_WORLD_RANK"], env["JAX_LOCAL_DEVICE_IDS"]) == (
        "3",
        "1",
        "0,1",
    )
    assert env["OMPI_MCA_orte_hnp_uri"] == ""
    assert (env["HOROVOD_RANK"], env["HOROVOD_SIZE"], env["CROSS_RANK"]) == ("1", "3", "1")
    assert not any(PLACE in value for value in env.values())


def test_torchrun_starts_a_process_for_each_gpu_of_a_worker() -> None:
    env = worker_environment(template(MEETING, gang=True), 2)
    assert (env["PET_NNODES"], env["PET_NODE_RANK"], env["PET_NPROC_PER_NODE"]) == ("3", "2", "2")
    assert (env["PET_MASTER_ADDR"], env["PET_MASTER_PORT"]) == ("w0", "5000")
    without = template(Rendezvous("w0", 5000, ("w0:2222",), gpus=0), gang=False)
    assert without["PET_NPROC_PER_NODE"] == "1"


def test_a_job_of_one_worker_does_not_take_itself_for_one_of_several() -> None:
    names = template(Rendezvous("localhost", 5000, ("localhost:2222",), gpus=4), gang=False)
    assert all(name.startswith("PET_") for name in names)
    assert (names["PET_NNODES"], names["PET_NPROC_PER_NODE"]) == ("1", "4")
