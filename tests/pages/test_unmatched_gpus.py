"""What keeps GPUs out of the pool, on the page of the pool."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server

Visit = Callable[..., Page]
GONE = "GPU-fell-off-the-bus"


def test_an_admin_reads_what_keeps_gpus_out_of_the_pool_ends_it_and_frees_them(
    visit: Visit, service: Service
) -> None:
    service.people.notebooks["susan"] = [Server("lab", "running")]
    service.run(service.engine.reserve_workspace("susan", "lab", 1, ["vision"], runs_on=[GONE]))
    page = visit("admin", "pool")
    section = page.get_by_test_id("section-unmatched")
    expect(section).to_contain_text(
        f"The notebook “lab” of “susan” runs on {GONE}, which is not among the GPUs of the pool any more. "
        "It keeps 1 GPU out of the pool until it has ended."
    )
    expect(section).to_contain_text("Stop it once its owner has saved")
    other = visit("joe", "pool", apart=True)
    expect(other.get_by_test_id("section-gpus")).to_be_visible()
    expect(other.get_by_test_id("section-unmatched")).to_have_count(0)

    section.get_by_test_id("unmatched-free").click()
    expect(section.get_by_test_id("unmatched-question")).to_contain_text("refused while processes of it live")
    section.get_by_test_id("unmatched-confirm").click()
    expect(page.locator("#message")).to_contain_text("“susan/lab” has not ended")
    expect(section).to_be_visible()

    section.get_by_test_id("unmatched-end").click()
    expect(section.get_by_test_id("unmatched-question")).to_contain_text("unsaved changes in it are lost")
    section.get_by_role("button", name="Not now").click()
    expect(section.get_by_test_id("unmatched-question")).to_have_count(0)
    section.get_by_test_id("unmatched-end").click()
    section.get_by_test_id("unmatched-confirm").click()
    expect(section.get_by_test_id("unmatched-question")).to_have_count(0)
    assert service.people.notebooks["susan"] == []

    section.get_by_test_id("unmatched-free").click()
    section.get_by_test_id("unmatched-confirm").click()
    expect(section).to_have_count(0)
    assert service.engine.pool().unmatched == []
