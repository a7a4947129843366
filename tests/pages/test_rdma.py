"""A job with RDMA on a machine with a network card, which is a made-up tree of the kernel's files in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pages_service import PERSON, Service, Windows
from playwright.sync_api import Page, expect
from sysfs_cards import add_card

from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.telemetry import discover


@pytest.fixture(scope="module")
def with_card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    root = tmp_path_factory.mktemp("root")
    add_card(root, "mlx5_0", 0)
    machine = discover(11, 3, root=root)
    build, train = machine.nodes
    near = {0: NearestCards("switch", ("mlx5_0",)), 1: NearestCards("switch", ("mlx5_0",))}
    devices = tuple(replace(gpu, cards=near.get(gpu.index)) for gpu in train.devices)
    machine.nodes = (build, replace(train, devices=devices))
    service = Service(tmp_path_factory.mktemp("rdma"), machine)
    service.start()
    yield service
    service.stop()


def visit(windows: Windows, service: Service, path: str) -> Page:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.goto(service.url + path)
    return page


def test_a_job_with_rdma_runs_and_is_shown_with_it_as_is_the_node(windows: Windows, with_card: Service) -> None:
    job = with_card.submit("susan", gpus=2, rdma=True)
    with_card.until(job.id, lambda job: job.state == "running")
    page = visit(windows, with_card, f"jobs/{job.id}")
    expect(page.locator(".st-facts div").filter(has_text="RDMA")).to_contain_text("for each worker")
    pool = visit(windows, with_card, "pool")
    row = pool.get_by_test_id("node-row").filter(has_text="train")
    expect(row.get_by_test_id("node-rdma")).to_have_text("RDMA")
    expect(row.get_by_test_id("node-cards")).to_have_text(
        "Nearest network cards: mlx5_0 to GPUs 0, 1 (same PCIe switch)"
    )
    of_workspaces = pool.get_by_test_id("node-row").filter(has_text="build")
    expect(of_workspaces).to_be_visible()
    expect(
        of_workspaces.get_by_test_id("node-rdma").or_(of_workspaces.get_by_test_id("node-cards"))
    ).to_have_count(0)
    with_card.end_jobs()


def test_a_job_without_rdma_is_not_shown_with_it(windows: Windows, with_card: Service) -> None:
    job = with_card.submit("susan", gpus=1)
    page = visit(windows, with_card, f"jobs/{job.id}")
    expect(page.locator(".st-facts div").filter(has_text="Priority")).to_be_visible()
    expect(page.locator(".st-facts div").filter(has_text="RDMA")).to_have_count(0)
    with_card.end_jobs()
