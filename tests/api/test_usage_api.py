"""Measured use through the API and as Prometheus metrics."""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from springtide.hub_extension.service.metrics import gpu_metrics
from springtide.scheduler import wire


async def measured(running: Any) -> dict[str, Any]:
    """Two running jobs, of susan's and jemma's, whose GPUs have been sampled twice."""
    jobs = {name: await running.submit(name, name=f"{name}s job") for name in ("susan", "jemma")}
    for name, job in jobs.items():
        await running.until(name, job["id"], lambda job: job["state"] == "running")
    for _ in range(2):
        await running.pool.engine.usage.sample(int(time.time()) // 10 * 10)
    return jobs


async def test_a_job_tells_how_much_it_uses_of_its_gpus(running: Any) -> None:
    jobs = await measured(running)
    susan = running.as_("susan")
    path = f"/jobs/{jobs['susan']['id']}"
    usage = (await susan.get(path)).json()["usage"]
    assert (usage["gpus"], usage["simulated"], usage["memory_total"]) == (1, True, None)
    assert usage["memory_used"] > 0
    series = (await susan.get(f"{path}/usage")).json()
    assert (series["step"], series["simulated"], series["points"][0]["gpus"]) == (10, True, 1)
    nobody = await running.as_("jemma").get(f"{path}/usage")
    assert (nobody.status_code, nobody.json()["code"]) == (404, "not_found")
    wrong = await susan.get(f"{path}/usage", params={"start": 20, "end": 10})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "end")


async def test_everyone_sees_the_readings_of_all_gpus_without_names_of_jobs(running: Any) -> None:
    jobs = await measured(running)
    answer = await running.as_("joe").get("/pool/gpus")
    usage = answer.json()
    assert usage["measured"]
    assert sorted((gpu["user"], gpu["project"], gpu["held"]) for gpu in usage["gpus"]) == [
        ("jemma", "speech", True),
        ("susan", "vision", True),
    ]
    assert all(gpu["simulated"] and gpu["power"] is None for gpu in usage["gpus"])
    assert not any(job["id"] in answer.text or job["name"] in answer.text for job in jobs.values())
    assert (await running.as_(None).get("/pool/gpus")).status_code == 401


async def test_use_is_told_by_what_is_asked_for_as_far_as_the_caller_may_see_it(running: Any) -> None:
    jobs = await measured(running)

    async def told(name: str, by: str, field: str) -> set[str]:
        items = (await running.as_(name).get("/usage", params={"by": by})).json()["items"]
        assert all(item["simulated"] and item["held"] >= 10 for item in items)
        return {item[field] for item in items}

    ids = {name: job["id"] for name, job in jobs.items()}
    assert await told("joe", "project", "project") == {"vision", "speech"}
    assert await told("joe", "person", "user") == set(), "as in reports"
    assert await told("susan", "person", "user") == {"susan"}
    assert await told("admin", "person", "user") == {"susan", "jemma"}
    assert await told("joe", "job", "job") == {ids["susan"]}
    assert await told("jemma", "job", "job") == {ids["jemma"]}
    assert len(await told("joe", "gpu", "gpu")) == 2
    assert await told("joe", "workspace", "server") == set()
    wrong = await running.as_("joe").get("/usage", params={"by": "colour"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "by")


async def test_metrics_have_simulated_use_labelled_so_and_nothing_of_what_is_not_reported(running: Any) -> None:
    await measured(running)
    text = (await running.as_("joe").get("/metrics")).text
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    used = {sample.labels["project"]: sample for sample in families["DCGM_FI_DEV_FB_USED"]}
    assert set(used) == {"vision", "speech"}
    assert used["vision"].labels["simulated"] == "true"
    assert used["vision"].value > 0
    assert families["DCGM_FI_DEV_POWER_USAGE"] == []
    assert {sample.labels["project"] for sample in families["springtide_project_used_gpus"]} <= set(used)


READING = wire.GpuReading(
    uuid="GPU-0",
    node="train",
    index=0,
    environment="train",
    model="NVIDIA H100",
    simulated=False,
    lost=False,
    user="susan",
    project="vision",
    held=True,
    utilization=0.25,
    memory_used=3 << 30,
    memory_total=80 << 30,
    power=312.5,
    temperature=61,
    processes=2,
    ecc_corrected=12,
    ecc_uncorrected=1,
    xid=79,
    nvlink_received=2e6,
    nvlink_sent=1e6,
    pcie_received=9e5,
    pcie_sent=4e4,
)


async def test_metrics_have_the_names_and_units_of_the_dcgm_exporter(running: Any) -> None:
    lost = replace(READING, uuid="GPU-1", index=1, lost=True)
    poor = replace(
        READING, uuid="GPU-2", index=2, utilization=None, memory_total=None, ecc_corrected=None, xid=None
    )
    usage = wire.PoolUsage(measured=True, at=1.0, gpus=[READING, lost, poor])
    found = {metric.name: metric.samples for metric in gpu_metrics(usage, running.pool.engine.pool())}
    of_first = {
        name: sample.value
        for name, samples in found.items()
        for sample in samples
        if sample.labels.get("gpu") == "0"
    }
    assert of_first == {
        "DCGM_FI_DEV_GPU_UTIL": 25.0,
        "DCGM_FI_DEV_FB_USED": 3 << 10,
        "DCGM_FI_DEV_FB_FREE": 77 << 10,
        "DCGM_FI_DEV_POWER_USAGE": 312.5,
        "DCGM_FI_DEV_GPU_TEMP": 61,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 12,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 1,
        "DCGM_FI_DEV_XID_ERRORS": 79,
        "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": 40.0,
        "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": 900.0,
        "springtide_gpu_nvlink_sent_bytes_per_second": 1e6,
        "springtide_gpu_nvlink_received_bytes_per_second": 2e6,
        "springtide_gpu_processes": 2,
        "springtide_gpu_lost": 0,
    }
    of_lost = {name for name, samples in found.items() for each in samples if each.labels.get("gpu") == "1"}
    assert of_lost == {"springtide_gpu_lost"}
    of_poor = {name for name, samples in found.items() for each in samples if each.labels.get("gpu") == "2"}
    assert not of_poor & {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"}
    [used] = found["springtide_project_used_gpus"]
    assert (used.labels["project"], used.value) == ("vision", 0.25)


async def test_metrics_count_the_gpus_that_nothing_holds_by_what_they_are(running: Any) -> None:
    async def free() -> dict[str, float]:
        text = (await running.as_("admin").get("/metrics")).text
        (gpus,) = (each for each in text_string_to_metric_families(text) if each.name == "springtide_gpus")
        of = {one.labels["state"]: one.value for one in gpus.samples if one.labels["environment"] == "train"}
        return {state: number for state, number in of.items() if number}

    assert await free() == {"idle": 4}
    await running.pool.engine.drain_node(wire.DrainRequest(node="train"), "admin")
    assert await free() == {"drained": 4}
