"""GPUs by NVML: the real pynvml on a C library whose answers the tests give."""

from __future__ import annotations

import subprocess
import sys

import pynvml
import pytest
from machines.nvml_library import GIB, LOST, UNKNOWN, Driver
from msgspec.structs import replace

from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.resources.per_gpu import per_gpu_of
from springtide.scheduler.telemetry import GpuSample, count_gpus, discover
from springtide.scheduler.telemetry.nvml import NvmlReader
from springtide.scheduler.telemetry.processor import machine_capacity


class Clock:
    """Time that moves only by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def reader(uuids: tuple[str, ...] = ("GPU-00000000",), clock: Clock | None = None) -> NvmlReader:
    """Return a reader of the driver's GPUs, which have to be counted first, as at discovery."""
    count_gpus()
    return NvmlReader(uuids, clock or Clock())


def test_all_that_a_gpu_reports_is_read(driver: Driver) -> None:
    driver.add()
    gpu = driver[0]
    gpu.utilization, gpu.memory_used, gpu.power, gpu.temperature = 37, 3 * GIB, 312_500, 61
    gpu.ecc_corrected, gpu.ecc_uncorrected, gpu.pcie_received, gpu.pcie_sent = 12, 1, 900, 40
    driver.compute(0, 4711, 4712)
    assert reader().read() == [
        GpuSample(
            "GPU-00000000",
            Reading(
                utilization=0.37,
                memory_used=3 * GIB,
                memory_total=80 * GIB,
                power=312.5,
                temperature=61,
                processes=2,
                ecc_corrected=12,
                ecc_uncorrected=1,
                pcie_received=900_000.0,
                pcie_sent=40_000.0,
            ),
        )
    ]


def test_what_a_gpu_does_not_report_is_absent_and_not_zero(driver: Driver) -> None:
    driver.add()
    driver[0].utilization = 50
    driver.fail(0, "ecc", "power", "nvlink", "pcie", "processes")
    driver.fail(0, "events", error=UNKNOWN)
    [sample] = reader().read()
    assert sample == GpuSample(
        "GPU-00000000", Reading(utilization=0.5, memory_used=0, memory_total=80 * GIB, temperature=0)
    )


def test_traffic_of_links_is_counted_between_two_readings(driver: Driver) -> None:
    driver.add()
    clock = Clock()
    reading = reader(clock=clock)
    assert reading.read()[0].reading.nvlink_sent is None
    driver[0].nvlink_received, driver[0].nvlink_sent = 20_000, 10_000
    clock.now += 10.0
    [sample] = reading.read()
    assert (sample.reading.nvlink_received, sample.reading.nvlink_sent) == (2_048_000.0, 1_024_000.0)
    driver[0].nvlink_sent = 0
    clock.now += 10.0
    assert reading.read()[0].reading.nvlink_sent is None, "a counter that began anew says nothing"


def test_a_lost_gpu_is_told_and_found_again(driver: Driver) -> None:
    driver.add(2)
    driver[1].utilization = 80
    reading = reader(("GPU-00000000", "GPU-00000001"))
    reading.read()
    driver.fail(0, error=LOST)
    lost, other = reading.read()
    assert lost == GpuSample("GPU-00000000", Reading(lost=True))
    assert (other.reading.lost, other.reading.utilization) == (False, 0.8)
    driver.fail(0, error=0)
    assert not reading.read()[0].reading.lost


def test_a_gpu_that_is_lost_in_the_middle_of_a_reading_has_no_half_a_sample(driver: Driver) -> None:
    driver.add()
    driver.fail(0, "pcie", error=LOST)
    assert reader().read() == [GpuSample("GPU-00000000", Reading(lost=True))]


def test_a_gpu_that_the_driver_does_not_know_is_lost(driver: Driver) -> None:
    driver.add()
    assert [sample.reading.lost for sample in reader(("GPU-00000000", "GPU-00000009")).read()] == [False, True]


def test_the_newest_xid_error_stays(driver: Driver) -> None:
    driver.add(2)
    reading = reader(("GPU-00000000", "GPU-00000001"))
    assert [sample.reading.xid for sample in reading.read()] == [None, None]
    driver.raise_xid(1, 63)
    driver.raise_xid(1, 79)
    assert [(sample.reading.xid, sample.new_xids) for sample in reading.read()] == [(None, ()), (79, (63, 79))]
    assert [(sample.reading.xid, sample.new_xids) for sample in reading.read()] == [(None, ()), (79, ())]
    driver.fail(1, error=LOST)
    assert [sample.reading.lost for sample in reading.read()] == [False, True]
    driver.fail(1, error=0)
    assert [sample.reading.xid for sample in reading.read()] == [None, 79]


def test_a_partition_reports_its_memory_and_the_errors_of_its_gpu(driver: Driver) -> None:
    driver.add()
    driver.add(2, name="NVIDIA H100 80GB HBM3 MIG 3g.40gb", memory=40 * GIB, whole=0)
    for slice_ in (1, 2):
        driver.fail(slice_, "utilization", "power", "temperature", "ecc", "pcie", "nvlink")
    driver[2].memory_used = GIB
    train = discover().nodes[1]
    assert [gpu.uuid for gpu in train.devices] == ["MIG-00000001", "MIG-00000002"]
    reading = reader(("MIG-00000001", "MIG-00000002"))
    values = Reading(memory_used=0, memory_total=40 * GIB, processes=0)
    assert reading.read() == [
        GpuSample("MIG-00000001", values),
        GpuSample("MIG-00000002", replace(values, memory_used=GIB)),
    ]
    driver.raise_xid(0, 94)
    assert [sample.reading.xid for sample in reading.read()] == [94, 94]


def test_the_machine_has_the_drivers_gpus_their_links_and_processes(driver: Driver) -> None:
    driver.add(4)
    for index in (1, 2, 3):
        driver[index].linked = 0b1110 & ~(1 << index)
    driver.compute(2, 4711)
    machine = discover(build_gpus=1)
    build, train = machine.nodes
    assert [gpu.uuid for gpu in build.devices] == ["GPU-00000000"]
    assert (train.gpu_type, train.islands) == ("h100-80gb-hbm3", ((0, 1, 2),))
    assert build.per_gpu == train.per_gpu == per_gpu_of(*machine_capacity(), 4)
    assert not any(gpu.simulated for gpu in train.devices)
    assert machine.users(["GPU-00000002", "GPU-00000003"])["GPU-00000002"] == {4711}
    assert [sample.uuid for sample in machine.samples([])] == [f"GPU-{index:08d}" for index in range(4)]


def test_without_a_driver_gpus_are_simulated(driver: Driver) -> None:
    driver.add(2)
    driver.refuse(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    assert count_gpus() == 0
    assert all(gpu.simulated for node in discover().nodes for gpu in node.devices)


def test_another_process_finds_these_gpus_by_the_librarys_name(driver: Driver) -> None:
    driver.add(3)
    code = "from springtide.scheduler.telemetry import count_gpus; print(count_gpus())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=driver.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"


@pytest.mark.gpu
def test_readings_are_those_of_nvidia_smi() -> None:
    fields = "uuid,memory.used,memory.total,temperature.gpu,power.draw,utilization.gpu"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split(", ") for line in told.splitlines()]
    samples = reader(tuple(line[0] for line in lines)).read()
    assert len(samples) == count_gpus()
    for sample, (uuid, used, total, temperature, power, utilization) in zip(samples, lines, strict=True):
        assert (sample.uuid, sample.reading.lost) == (uuid, False)
        assert sample.reading.memory_total is not None
        assert sample.reading.memory_total >> 20 == int(total)
        assert sample.reading.memory_used == pytest.approx(int(used) << 20, abs=GIB)
        assert sample.reading.temperature == pytest.approx(int(temperature), abs=10)
        assert sample.reading.power == pytest.approx(float(power), abs=150)
        assert sample.reading.utilization == pytest.approx(int(utilization) / 100, abs=1)
