"""Checkpoints on a job's page: listed, forked from, deleted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browsers.axe import COLOURS, show_theme, violations
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]
TRAIN = """
import sys
from springtide.training import current_job
job = current_job()
found = job.restore()
print("has", found.step if found else 0, *sys.argv[1:])
for step in range(int(found.step) if found else 0, 3):
    job.report(step=step + 1, of=3, loss=1 / (step + 1))
    job.save(step, step=step + 1)
"""


@pytest.fixture
def trained(service: Service) -> wire.Job:
    """A job of susan's that has saved three checkpoints and ended."""
    job = service.submit("susan", "python3", "-c", TRAIN, "--rate", "0.1", name="train")
    return service.until(job.id, lambda found: found.state == "succeeded")


def test_a_checkpoint_is_forked_on_the_jobs_page(visit: Visit, service: Service, trained: wire.Job) -> None:
    page = visit("susan", f"jobs/{trained.id}")
    rows = page.get_by_test_id("checkpoint-row")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("step 3")
    expect(rows.first).to_contain_text("loss 0.33")
    rows.nth(1).get_by_test_id("checkpoint-fork").click()
    form = rows.nth(1).get_by_test_id("rerun-form")
    expect(form).to_contain_text("A new job continues from step 2.")
    expect(form.get_by_test_id("form-name")).to_have_value(re.compile(r"^train, from step 2( \(\d+\))?$"))
    form.get_by_test_id("form-arguments.rate").fill("--fast")
    form.get_by_role("button", name="Fork from step 2").click()
    expect(form.get_by_text("would be read as an option")).to_be_visible()
    found = violations(page)
    show_theme(page, "dark")
    assert found + violations(page, **COLOURS) == []
    form.get_by_test_id("form-arguments.rate").fill("0.5")
    form.get_by_test_id("form-gpus").fill("2")
    form.get_by_role("button", name="Fork from step 2").click()
    page.wait_for_url(lambda url: "/jobs/" in url and not url.endswith(trained.id))
    fork = service.run(service.engine.job(page.url.rpartition("/")[2]))
    assert fork.argv[-2:] == ["--rate", "0.5"]
    line = page.get_by_test_id("job-first")
    expect(line).to_contain_text("Fork of “train” at step 2: gpus 1 → 2, rate 0.1 → 0.5.")
    expect(page.get_by_test_id("log-text")).to_contain_text("has 2 --rate 0.5")
    line.get_by_role("link", name="Its parent").click()
    page.wait_for_url(re.compile(trained.id))

    page.goto(f"{service.url}?show=all")
    row = page.locator(f"[data-testid=job-row][data-job='{fork.id}']")
    expect(row.locator("[data-column='forked from']")).to_have_text("train at step 2")
    columns = page.locator("th[data-column]").evaluate_all("heads => heads.map((head) => head.dataset.column)")
    values = [column for column in columns if column.startswith(("argument.", "last."))]
    assert values
    assert columns.index("forked from") > max(map(columns.index, values))
    parent = page.locator(f"[data-testid=job-row][data-job='{trained.id}']")
    expect(parent.locator("[data-column='forked from']")).to_have_attribute("data-none", "")
    page.get_by_test_id("search-jobs").fill("forked_from = train and fork_step < 3")
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    row.get_by_test_id("forked-from").click()
    page.wait_for_url(re.compile(trained.id))


def test_a_comparison_says_in_table_and_legend_of_which_run_and_step_a_job_is_a_fork(
    visit: Visit, service: Service
) -> None:
    name = "vit-small-patch16-224-finetune-cosine-warmup"
    trained = service.submit("susan", "python3", "-c", TRAIN, "--rate", "0.1", name=name)
    service.until(trained.id, lambda found: found.state == "succeeded")
    page = visit("susan", f"jobs/{trained.id}")
    page.get_by_test_id("checkpoint-row").nth(1).get_by_test_id("checkpoint-fork").click()
    page.get_by_test_id("rerun-send").click()
    page.wait_for_url(lambda url: "/jobs/" in url and not url.endswith(trained.id))
    fork = service.until(page.url.rpartition("/")[2], lambda found: found.state == "succeeded")
    page.goto(f"{service.url}compare?job={trained.id}&job={fork.id}")
    lineage = page.get_by_test_id("difference").filter(has=page.get_by_role("rowheader", name="forked from"))
    expect(lineage.get_by_role("cell")).to_have_text(["\N{EN DASH}", f"{name} at step 2"])
    origin = page.get_by_test_id("run-origin")
    expect(origin).to_have_text([f"(fork of “{name}” at step 2)"])
    assert origin.evaluate("(words) => words.closest('li').offsetHeight") < 60, "the legend has a few lines"
    found = violations(page)
    show_theme(page, "dark")
    assert found + violations(page, **COLOURS) == []
    lineage.get_by_test_id("forked-from").click()
    page.wait_for_url(re.compile(f"jobs/{trained.id}"))


def test_a_fork_runs_again_from_its_checkpoint_and_from_the_start_once_that_is_gone(
    visit: Visit, service: Service, trained: wire.Job
) -> None:
    page = visit("susan", f"jobs/{trained.id}")
    page.get_by_test_id("checkpoint-row").nth(1).get_by_test_id("checkpoint-fork").click()
    page.get_by_test_id("rerun-send").click()
    page.wait_for_url(lambda url: "/jobs/" in url and not url.endswith(trained.id))
    fork = page.url.rpartition("/")[2]
    service.until(fork, lambda found: found.state == "succeeded")
    page.get_by_test_id("job-edit").click()
    expect(page.get_by_test_id("rerun-kept")).to_contain_text(
        "A new job continues from step 2 of “train” once more."
    )
    found = violations(page)
    show_theme(page, "dark")
    assert found + violations(page, **COLOURS) == []
    page.get_by_test_id("rerun-send").click()
    page.wait_for_url(lambda url: not url.endswith(fork))
    expect(page.get_by_test_id("job-first")).to_contain_text("Fork of “train” at step 2")
    for job in (trained.id, fork):
        kept = service.run(service.engine.forks.checkpoints(job)).items
        service.run(service.engine.forks.delete(job, [each.name for each in kept], force=True))
    page = visit("susan", f"jobs/{fork}")
    page.get_by_test_id("job-rerun").click()
    expect(page.get_by_test_id("rerun-notice")).to_contain_text(
        "This fork began from step 2 of “train”, which is not there"
    )
    page.get_by_test_id("rerun-from-start").click()
    expect(page.get_by_test_id("rerun-kept")).not_to_contain_text("continues")
    page.get_by_test_id("rerun-send").click()
    page.wait_for_url(lambda url: not url.endswith(fork))
    expect(page.get_by_test_id("job-first")).to_contain_text("Run again of “train, from step 2")


def test_many_checkpoints_are_folded_to_the_newest_the_best_and_their_size(visit: Visit, service: Service) -> None:
    program = TRAIN.replace("range(int(found.step) if found else 0, 3)", "range(30)").replace(
        "loss=1 / (step + 1)", "loss=abs(step - 11)"
    )
    job = service.submit("susan", "python3", "-c", program, name="many", keep_last=30, keep_best="loss")
    service.until(job.id, lambda found: found.state == "succeeded")
    page = visit("susan", f"jobs/{job.id}")
    rows, total = page.get_by_test_id("checkpoint-row"), page.get_by_test_id("checkpoints-total")
    expect(rows).to_have_count(4)
    expect(rows).to_contain_text(["step 30", "step 29", "step 28", "step 12"])
    expect(rows.last).to_contain_text("best loss")
    expect(total).to_contain_text(re.compile(r"^30 checkpoints with [\d.]+ (B|kB|KiB|MiB)"))
    page.get_by_test_id("checkpoints-all").click()
    expect(rows).to_have_count(30)
    expect(rows.get_by_text("best loss")).to_have_count(1)
    expect(page.get_by_test_id("checkpoints-all")).to_have_text("Show fewer")
    page.get_by_test_id("checkpoints-all").click()
    rows.last.get_by_test_id("checkpoint-delete").click()
    expect(page.get_by_test_id("checkpoint-question")).to_contain_text("Delete step 12?")
    found = violations(page)
    show_theme(page, "dark")
    assert found + violations(page, **COLOURS) == []


def test_a_checkpoint_is_deleted_after_a_question(visit: Visit, trained: wire.Job) -> None:
    page = visit("susan", f"jobs/{trained.id}")
    rows = page.get_by_test_id("checkpoint-row")
    rows.first.get_by_test_id("checkpoint-delete").click()
    expect(page.get_by_test_id("checkpoint-question")).to_contain_text("Delete step 3? This cannot be undone.")
    page.get_by_test_id("checkpoint-keep").click()
    expect(page.get_by_test_id("checkpoint-question")).to_have_count(0)
    rows.first.get_by_test_id("checkpoint-delete").click()
    page.get_by_test_id("checkpoint-delete-now").click()
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("step 2")


def test_the_page_of_a_job_without_its_checkpoints_says_that_they_were_deleted(
    visit: Visit, service: Service
) -> None:
    job = service.submit("susan", "python3", "-c", f"{TRAIN}import time; time.sleep(600)", name="paused")
    service.until(job.id, lambda found: found.saved_step == 3)
    service.run(service.engine.pause(job.id, "susan"))
    service.until(job.id, lambda found: found.state == "paused")
    kept = service.run(service.engine.forks.checkpoints(job.id)).items
    service.run(service.engine.forks.delete(job.id, [each.name for each in kept], force=True))
    page = visit("susan", f"jobs/{job.id}")
    saved = page.get_by_test_id("section-facts").locator("dt", has_text="Last saved").locator("+ dd")
    expect(saved).to_have_text("its checkpoints were deleted, or are damaged")


def test_others_see_the_list_without_buttons_and_an_empty_one_says_why(
    visit: Visit, service: Service, trained: wire.Job
) -> None:
    page = visit("admin", f"jobs/{trained.id}")
    expect(page.get_by_test_id("checkpoint-row")).to_have_count(3)
    expect(page.get_by_test_id("checkpoint-fork")).to_have_count(0)
    plain = service.submit("susan", "true")
    service.until(plain.id, lambda found: found.state == "succeeded")
    page = visit("susan", f"jobs/{plain.id}")
    expect(page.get_by_test_id("no-checkpoints")).to_have_text(
        "No checkpoints: the job saved none, or they were deleted."
    )
