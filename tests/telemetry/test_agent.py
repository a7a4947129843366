"""The agent of a node: its readings by NVML, its requests to the kubelet, and its reports."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import pytest
from clusters.grpc_server import field, grpc_server
from hypothesis import given
from hypothesis import strategies as st
from machines.nvml_library import GIB, LOST, Driver
from patience import PATIENCE_S

from springtide.scheduler.telemetry.agent import pod_resources, report
from springtide.scheduler.telemetry.agent.collector import LOOK_FOR_GPUS, XIDS_KEPT, Collector
from springtide.scheduler.telemetry.agent.pod_resources import PodDevices, PodResources, PodResourcesError
from springtide.scheduler.telemetry.agent.report import NodeReport, ReportError, decode, encode
from springtide.scheduler.telemetry.agent.server import REPORT_PATH, make_server

WHOLE = "nvidia.com/gpu"
TOKEN = "t" * 64


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Kubelet:
    """What a kubelet answers."""

    def __init__(self, *pods: PodDevices, **offered: tuple[str, ...]) -> None:
        self.pods, self.error = pods, ""
        self.offers = {WHOLE: ("GPU-00000000", "GPU-00000001")} | offered

    def assigned(self) -> tuple[PodDevices, ...]:
        if self.error:
            raise PodResourcesError(self.error)
        return self.pods

    def offered(self) -> dict[str, tuple[str, ...]]:
        return self.offers


@pytest.fixture
def clock() -> Clock:
    return Clock()


def read(collector: Collector, clock: Clock) -> NodeReport:
    clock.now += 10
    return decode(encode(collector.report()))


def test_a_report_has_the_gpus_their_readings_links_resources_and_pods(driver: Driver, clock: Clock) -> None:
    driver.add(3)
    driver[0].linked, driver[1].linked = 1 << 1, 1 << 0
    driver[1].utilization, driver[1].memory_used, driver[1].power = 75, 3 * GIB, 250_000
    pod = PodDevices("pool", "st-digits-1-0", {WHOLE: ("GPU-00000001",), "example.com/fpga": ("f-1",)})
    other = PodDevices("elsewhere", "web", {"example.com/fpga": ("f-2",)})
    found = read(Collector(Kubelet(pod, other), clock), clock)
    assert [(gpu.uuid, gpu.linked, gpu.resource) for gpu in found.gpus] == [
        ("GPU-00000000", (1,), WHOLE),
        ("GPU-00000001", (0,), WHOLE),
        ("GPU-00000002", (), ""),
    ]
    reading = found.gpus[1].reading
    assert (reading.utilization, reading.memory_used, reading.power) == (0.75, 3 * GIB, 250.0)
    assert [(each.namespace, each.name, each.gpus) for each in found.pods] == [
        ("pool", "st-digits-1-0", ("GPU-00000001",))
    ]
    assert found.problem == ""


def test_a_gpu_shared_by_time_counts_once_for_a_pod(driver: Driver, clock: Clock) -> None:
    driver.add()
    pod = PodDevices("pool", "a", {"nvidia.com/gpu.shared": ("GPU-00000000::1", "GPU-00000000::3")})
    found = read(Collector(Kubelet(pod), clock), clock)
    assert [each.gpus for each in found.pods] == [("GPU-00000000",)]


def test_an_xid_error_is_in_all_reports_of_the_next_minute(driver: Driver, clock: Clock) -> None:
    driver.add(2)
    collector = Collector(Kubelet(), clock)
    assert read(collector, clock).gpus[0].xids == ()
    driver.raise_xid(0, 48)
    first = read(collector, clock)
    driver.raise_xid(0, 79)
    second = read(collector, clock)
    assert [(each.seq, each.xid) for each in first.gpus[0].xids] == [(0, 48)]
    assert [(each.seq, each.xid) for each in second.gpus[0].xids] == [(0, 48), (1, 79)]
    assert second.gpus[1].xids == ()
    clock.now += XIDS_KEPT
    assert read(collector, clock).gpus[0].xids == ()


def test_requests_of_one_moment_read_the_gpus_once(driver: Driver, clock: Clock) -> None:
    driver.add()
    collector = Collector(Kubelet(), clock)
    assert collector.report() is collector.report()
    clock.now += 2
    driver[0].utilization = 50
    assert collector.report().gpus[0].reading.utilization == 0.5


def test_a_gpu_that_is_lost_stays_in_the_report_and_new_ones_join(driver: Driver, clock: Clock) -> None:
    collector = Collector(Kubelet(), clock)
    assert read(collector, clock).problem.startswith("NVML finds no GPUs")
    driver.add()
    assert [gpu.uuid for gpu in read(collector, clock).gpus] == ["GPU-00000000"]
    driver.fail(0, error=LOST)
    clock.now += LOOK_FOR_GPUS
    [gpu] = read(collector, clock).gpus
    assert gpu.reading.lost
    driver[0].errors = type(driver[0].errors)()
    driver.add()
    assert [gpu.reading.lost for gpu in read(collector, clock).gpus] == [False, False]


def test_without_the_kubelet_gpus_are_reported_and_the_problem_is_named(driver: Driver, clock: Clock) -> None:
    driver.add()
    kubelet = Kubelet(PodDevices("pool", "a", {WHOLE: ("GPU-00000000",)}))
    kubelet.error = "PermissionError: [Errno 13] “no”\n"
    found = read(Collector(kubelet, clock), clock)
    assert (len(found.gpus), found.pods) == (1, ())
    assert found.problem == ("The kubelet's PodResources API cannot be used: PermissionError: [Errno 13] no.")


# ---------- the kubelet


def devices(resource: str, *ids: str) -> bytes:
    topology = field(1, field(1, 0))
    return field(1, resource) + b"".join(field(2, each) for each in ids) + field(3, topology)


def pod(name: str, namespace: str, *containers: bytes) -> bytes:
    parts = [field(3, field(1, "main") + field(2, each) + field(3, 7)) for each in containers]
    return field(1, field(1, name) + field(2, namespace) + b"".join(parts))


LISTED = (
    pod("web", "elsewhere")
    + pod("st-digits-1-0", "pool", devices(WHOLE, "GPU-a", "GPU-b"), devices(WHOLE, "GPU-c"))
    + pod("big", "pool", devices(WHOLE, *(f"GPU-{number:060d}" for number in range(400))))
)
OFFERED = field(1, devices(WHOLE, "GPU-a", "GPU-b", "GPU-c")) + field(1, devices("nvidia.com/mig-1g.5gb", "MIG-a"))
METHODS = {
    "/v1.PodResourcesLister/List": lambda _: iter([LISTED]),
    "/v1.PodResourcesLister/GetAllocatableResources": lambda _: iter([OFFERED]),
}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_resources, "TIMEOUT_S", PATIENCE_S)


@pytest.mark.usefixtures("patient")
def test_the_kubelet_is_asked_by_grpc_which_pod_has_which_devices(tmp_path: Path) -> None:
    kubelet = PodResources(tmp_path / "kubelet.sock")
    for _ in range(2):  # a kubelet that was restarted
        with grpc_server(tmp_path / "kubelet.sock", METHODS):
            first, second = kubelet.assigned()
            assert first == PodDevices("pool", "st-digits-1-0", {WHOLE: ("GPU-a", "GPU-b", "GPU-c")})
            assert len(second.devices[WHOLE]) == 400
            offered = {WHOLE: ("GPU-a", "GPU-b", "GPU-c"), "nvidia.com/mig-1g.5gb": ("MIG-a",)}
            assert kubelet.offered() == offered
        with pytest.raises(PodResourcesError):
            kubelet.assigned()
    kubelet.close()


@pytest.mark.usefixtures("patient")
def test_a_kubelet_that_refuses_is_an_error(tmp_path: Path) -> None:
    kubelet = PodResources(tmp_path / "kubelet.sock")
    with grpc_server(tmp_path / "kubelet.sock", {}), pytest.raises(PodResourcesError, match="gRPC 12"):
        kubelet.assigned()
    kubelet.close()


@given(st.binary(max_size=60))
def test_no_answer_of_the_kubelet_is_more_than_an_error(data: bytes) -> None:
    with suppress(PodResourcesError):
        for part in pod_resources._parts(data, 1):
            pod_resources._pod(part)


# ---------- hostile reports

GOOD = {"agent": "0123456789abcdef", "gpus": [{"uuid": "GPU-a"}], "pods": []}


@pytest.mark.parametrize(
    "change",
    [
        {"agent": "<script>"},
        {"gpus": [{"uuid": "GPU-a"}, {"uuid": "GPU-a"}]},
        {"gpus": [{"uuid": "GPU a"}]},
        {"gpus": [{"uuid": "GPU-a", "linked": [1]}]},
        {"gpus": [{"uuid": "GPU-a", "name": "\x1b[31mred"}]},
        {"gpus": [{"uuid": "GPU-a", "reading": {"utilization": 1.01}}]},
        {"gpus": [{"uuid": "GPU-a", "reading": {"memory_used": -1}}]},
        {"gpus": [{"uuid": "GPU-a", "reading": {"ecc_uncorrected": 1 << 70}}]},
        {"gpus": [{"uuid": "GPU-a", "reading": {"power": 1e300}}]},
        {"gpus": [{"uuid": f"GPU-{number}"} for number in range(report.MOST_GPUS + 1)]},
        {"pods": [{"namespace": "../..", "name": "a", "gpus": []}]},
        {"pods": [{"namespace": "pool", "name": "A B", "gpus": []}]},
        {"problem": "x" * 201},
        {"problem": "line\nbreak"},
    ],
)
def test_a_report_out_of_bounds_is_refused(change: dict[str, object]) -> None:
    assert decode(msgspec.json.encode(GOOD)).gpus[0].uuid == "GPU-a"
    with pytest.raises(ReportError):
        decode(msgspec.json.encode(GOOD | change))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000, b" " * (report.MOST_BYTES + 1), b"null"])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError):
        decode(data)


# ---------- the server


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of an agent whose reports are empty."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    server = make_server(("127.0.0.1", 0), lambda: NodeReport("0" * 16), tmp_path / "token")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_only_who_has_the_token_gets_the_report(address: str, tmp_path: Path) -> None:
    def status(path: str = REPORT_PATH, **headers: str) -> int:
        return httpx.get(f"{address}{path}", headers=headers, trust_env=False, timeout=PATIENCE_S).status_code

    given_token = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.get(f"{address}{REPORT_PATH}", headers=given_token, trust_env=False, timeout=PATIENCE_S)
    assert decode(answer.content) == NodeReport("0" * 16)
    assert [status(), status(Authorization="Bearer x"), status(Authorization=f"Bearer {'u' * 64}")] == [401] * 3
    assert (status("/health"), status("/", **given_token)) == (200, 404)
    assert (
        httpx.post(f"{address}{REPORT_PATH}", headers=given_token, trust_env=False, timeout=PATIENCE_S).status_code
        == 501
    )
    (tmp_path / "token").write_text("")
    assert status(Authorization="Bearer x") == 401


def test_an_agent_without_a_usable_token_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    agent = (sys.executable, "-m", "springtide.scheduler.telemetry.agent")
    command = [*agent, "--token-file", str(tmp_path / "token")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"{tmp_path / 'token'} has no token of 32 letters and digits or more.\n"
