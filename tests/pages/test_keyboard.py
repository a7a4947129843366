"""Every page by keyboard alone: each action is reached with the tabulator, shows the focus, and hands it on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browsers.keyboard import Keyboard
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire

Visit = Callable[..., Page]

REPORTING = """
import json, os, time
with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
    for step in range(3):
        report.write(json.dumps({"at": time.time(), "step": step, "of": 9, "values": {"loss": step}}) + "\\n")
print("a line of the log", flush=True)
with open(os.environ["SPRINGTIDE_OUTPUT_DIR"] + "/notes.txt", "w") as notes:
    notes.write("best at step 3")
time.sleep(600)
"""
TRIAL = "import os, sys, time\nif os.environ['SPRINGTIDE_TRIAL'] == '1': sys.exit(1)\ntime.sleep(600)"


@pytest.fixture
def running(service: Service) -> wire.Job:
    """A job of susan's that runs, has reported and has written a file."""
    job = service.submit("susan", "python3", "-c", REPORTING, name="training")
    return service.until(job.id, lambda found: found.progress.step == 2)


def drained(service: Service) -> list[str]:
    return [node.name for node in service.engine.pool().nodes if node.drain]


def test_my_jobs_are_found_selected_and_changed_by_keyboard(
    visit: Visit, service: Service, running: wire.Job
) -> None:
    other = service.submit("susan", name="another")
    page = visit("susan")
    keys, row = Keyboard(page), page.locator(f"[data-job='{running.id}']")
    rows = page.get_by_test_id("job-row")
    expect(rows).to_have_count(2)
    keys.press(page.get_by_test_id("filter-ended"))
    expect(page.get_by_text("No job has ended here yet.")).to_be_visible()
    expect(page.get_by_test_id("filter-ended")).to_be_focused()
    keys.press(page.get_by_test_id("filter-active"))
    keys.write(page.get_by_test_id("search-jobs"), "train")
    expect(rows).to_have_count(1)
    keys.press(page.get_by_test_id("search-jobs"), "Escape")
    expect(rows).to_have_count(2)
    keys.press(page.get_by_test_id("filter-state"), "ArrowDown")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    keys.press(page.get_by_test_id("clear-filters"))
    expect(rows).to_have_count(2)
    keys.press(page.get_by_test_id("sort-name"))
    expect(rows.first).to_contain_text("another")
    expect(page.get_by_test_id("sort-name")).to_be_focused()

    keys.press(row.get_by_test_id("select-job"), "Space")
    keys.press(page.get_by_test_id("selected-pause"))
    expect(page.get_by_test_id("selection-result")).to_contain_text("Paused 1 job.")
    keys.press(page.get_by_test_id("selected-undo"))
    service.until(running.id, lambda job: job.state == "running" and not job.held_by_user)
    keys.press(row.get_by_test_id("select-job"), "Space")
    keys.press(page.locator(f"[data-job='{other.id}']").get_by_test_id("select-job"), "Space")
    keys.press(page.get_by_test_id("selected-cancel"))
    expect(page.get_by_test_id("selected-keep")).to_be_focused()
    keys.press(page.get_by_test_id("selected-confirm"))
    service.until(other.id, lambda job: job.state == "cancelled")

    keys.press(row.get_by_test_id("open-card"))
    keys.press(page.get_by_test_id("job-pause"))
    expect(page.get_by_test_id("job-resume")).to_be_focused()
    page.keyboard.press("Enter")
    service.until(running.id, lambda job: not job.held_by_user)
    keys.press(row.get_by_test_id("row-name"))
    page.wait_for_url(f"**/jobs/{running.id}")


@pytest.mark.parametrize(("action", "result"), [("tag", "Tagged 1 job."), ("note", "The note is saved.")])
def test_a_field_of_the_selection_opens_at_once_and_gives_the_focus_back_to_its_button(
    visit: Visit, service: Service, action: str, result: str
) -> None:
    job = service.submit("susan", "true", name=f"a run to {action}")
    service.until(job.id, lambda found: found.state == "succeeded")
    page = visit("susan", "?show=all")
    keys, opener = Keyboard(page), page.get_by_test_id(f"selected-{action}")
    keys.press(page.locator(f"[data-job='{job.id}']").get_by_test_id("select-job"), "Space")
    field = opener.evaluate(
        "button => { button.focus(); button.click(); return document.activeElement.dataset.testid }"
    )
    assert field == "selection-text", "what is typed after the click is lost"
    page.keyboard.type("baseline")
    page.keyboard.down("Enter")
    expect(page.get_by_test_id("selection-result")).to_contain_text(result)
    expect(opener).to_be_focused()
    page.keyboard.down("Enter")  # the key is still held
    expect(opener).to_be_focused()
    page.keyboard.up("Enter")
    page.keyboard.press("Enter")
    keys.press(page.get_by_test_id("selected-close"))
    expect(opener).to_be_focused()
    kept = service.until(job.id, lambda found: bool(found.note or found.options.tags))
    assert (kept.note, list(kept.options.tags)) == (("", ["baseline"]) if action == "tag" else ("baseline", []))
    expect(page.get_by_test_id("job-row").filter(has_text=job.name)).to_have_count(1)


def test_runs_are_selected_compared_zoomed_into_and_left_by_keyboard(
    visit: Visit, service: Service, running: wire.Job
) -> None:
    other = service.submit("susan", "python3", "-c", REPORTING, name="another")
    service.until(other.id, lambda found: found.progress.step == 2)
    page = visit("susan")
    keys = Keyboard(page)
    for job in (running, other):
        keys.press(page.locator(f"[data-job='{job.id}']").get_by_test_id("select-job"), "Space")
    keys.press(page.get_by_test_id("selected-compare"))
    page.wait_for_url("**/compare?*")
    keys.reach(page.get_by_role("region", name="What differs"))
    plot = page.get_by_test_id("overlay-loss")
    expect(plot.get_by_test_id("overlay-run")).to_have_count(2)
    keys.press(plot, "+")
    expect(page.get_by_test_id("shape-from")).to_have_value("0.5")
    expect(plot).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("shape-from")).to_have_value("")
    keys.press(page.get_by_role("link", name="My jobs").last)
    expect(page.get_by_test_id("job-row")).to_have_count(2)


def test_a_job_is_read_cancelled_and_run_again_on_its_page_by_keyboard(visit: Visit, running: wire.Job) -> None:
    page = visit("susan", f"jobs/{running.id}")
    keys, card = Keyboard(page), page.get_by_test_id("job-card")
    keys.press(card.get_by_test_id("job-cancel"))
    expect(card.get_by_test_id("job-keep")).to_be_focused()
    page.keyboard.press("Enter")
    expect(card.get_by_test_id("job-cancel")).to_be_focused()
    keys.press(page.get_by_test_id("output-view"))
    expect(page.get_by_test_id("output-viewed")).to_contain_text("best at step 3")
    keys.reach(page.get_by_test_id("output-download"))
    keys.reach(page.get_by_test_id("metrics-across"))
    keys.write(page.get_by_test_id("log-search"), "line")
    expect(page.get_by_test_id("log-found")).to_contain_text("1 ")
    keys.press(card.get_by_test_id("job-cancel"))
    keys.press(card.get_by_test_id("job-confirm"))
    expect(card.get_by_test_id("job-rerun")).to_be_enabled()
    expect(page.locator("footer:focus")).to_contain_text("Run again")
    keys.press(card.get_by_test_id("job-edit"))
    form = page.get_by_test_id("rerun-form")
    keys.press(form.get_by_test_id("rerun-close"))
    expect(card.get_by_test_id("job-edit")).to_be_focused()
    page.keyboard.press("Enter")
    keys.press(form.get_by_test_id("rerun-more").locator("summary"))
    keys.write(form.get_by_test_id("form-name"), "again")
    keys.press(form.get_by_test_id("rerun-send"))
    expect(page.get_by_test_id("first-run")).to_be_visible()


def test_a_sweep_is_sorted_filtered_retried_and_ended_by_keyboard(visit: Visit, service: Service) -> None:
    trials = wire.Trials(number=3, at_least=3, parameters=[{"rate": each} for each in (0.1, 0.2, 0.3)])
    sweep = service.submit("susan", "python3", "-c", TRIAL, name="rates", trials=trials)
    service.until(sweep.id, lambda job: job.trials is not None and job.trials.failed == 1)
    page = visit("susan", f"jobs/{sweep.id}")
    keys, rows = Keyboard(page), page.get_by_test_id("trial-row")
    keys.press(page.get_by_test_id("trials-sort-rate"))
    keys.press(page.get_by_test_id("trials-sort-rate"))
    expect(rows.first).to_have_attribute("data-trial", "2")
    keys.press(page.get_by_test_id("trials-state"), "f")
    expect(rows).to_have_count(1)
    keys.press(page.get_by_test_id("trials-state"), "Home")
    keys.write(page.get_by_test_id("trials-search"), "nothing like this")
    keys.press(page.get_by_test_id("trials-all"))
    expect(rows).to_have_count(3)
    keys.press(page.get_by_test_id("job-retry"))
    retried = page.locator("[data-trial='1']").get_by_test_id("trial-link")
    expect(retried).to_have_attribute("href", f"/services/springtide/jobs/{sweep.id}t1r2")
    keys.reach(retried)
    keys.press(page.get_by_test_id("job-cancel"))
    keys.press(page.get_by_test_id("job-confirm"))
    expect(page.get_by_test_id("job-state")).to_have_text("Cancelled")
    expect(page.get_by_test_id("job-rerun")).to_be_enabled()
    expect(page.locator("footer:focus")).to_contain_text("Run again")


def test_the_pool_is_read_and_a_node_is_drained_by_keyboard(
    visit: Visit, service: Service, running: wire.Job
) -> None:
    page = visit("admin", "pool")
    keys, row = Keyboard(page), page.get_by_test_id("node-row").filter(has_text="train")
    keys.press(page.get_by_test_id("tide-span"), "ArrowDown")
    expect(page.get_by_test_id("tide-span")).not_to_have_value("1 hour")
    choice = page.get_by_test_id("section-tide").get_by_role("button", name="vision")
    keys.press(choice)
    expect(choice).to_have_attribute("aria-pressed", "true")
    keys.press(row.get_by_test_id("node-drain"))
    keys.write(row.get_by_test_id("node-why"), "A fan is to be replaced.")
    keys.press(row.get_by_test_id("node-finish"), "Space")
    keys.press(row.get_by_test_id("node-confirm"))
    expect(row.get_by_test_id("node-undrain")).to_be_visible()
    page.keyboard.press("Enter")
    assert drained(service) == ["train"], "the key that drained the node lets it return"
    keys.press(row.get_by_test_id("node-undrain"))
    expect(row.get_by_test_id("node-drain")).to_be_focused()
    assert drained(service) == []
    keys.press(page.get_by_test_id("pool-cell").first)
    page.wait_for_url(f"**/jobs/{running.id}")


def test_quotas_members_and_ranges_are_changed_and_undone_by_keyboard(visit: Visit, service: Service) -> None:
    page = visit("admin", "admin")
    keys = Keyboard(page)
    keys.write(page.get_by_test_id("edit-weight-nlp"), "3")
    keys.press(page.get_by_test_id("discard-nlp"))
    expect(page.get_by_test_id("edit-weight-nlp")).to_have_value("1")
    keys.write(page.get_by_test_id("edit-weight-nlp"), "2")
    keys.press(page.get_by_test_id("save-nlp"))
    expect(page.get_by_test_id("audit-row").first).to_contain_text("weight 1 → 2")
    keys.press(page.get_by_role("button", name="Undo").first)
    expect(page.get_by_test_id("edit-weight-nlp")).to_have_value("1")
    keys.write(page.get_by_test_id("member-add-nlp"), "susan")
    page.keyboard.press("Enter")
    keys.press(page.get_by_test_id("member-remove-nlp-susan"))
    expect(page.get_by_test_id("member-nlp-susan")).to_have_count(0)
    keys.press(page.get_by_test_id("ranges-edit-nlp"))
    group = page.get_by_role("group", name="What jobs of nlp may ask for")
    expect(group.get_by_role("textbox").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("ranges-edit-nlp")).to_be_focused()
    keys.press(page.get_by_test_id("delete-nlp"))
    keys.reach(page.get_by_test_id("delete-confirm-nlp"))
    keys.press(page.get_by_test_id("new-project-open"))
    expect(page.get_by_test_id("new-project-name")).to_be_focused()
    page.keyboard.type("audio")
    keys.press(page.get_by_test_id("new-project-save"))
    row = page.get_by_test_id("project-row-audio")
    keys.press(page.get_by_test_id("delete-audio"))
    keys.press(page.get_by_test_id("delete-confirm-audio"))
    expect(row).to_have_count(0)


def test_workspaces_are_stopped_and_notifications_chosen_by_keyboard(visit: Visit, service: Service) -> None:
    service.people.notebooks["susan"] = [Server("", "running", "/user/susan/", since=1e9, last_activity=1e9)]
    page = visit("susan", "workspaces")
    keys, row = Keyboard(page), page.get_by_test_id("workspace-row")
    keys.press(row.get_by_test_id("workspace-stop"))
    expect(row.get_by_role("button", name="Keep it")).to_be_focused()
    keys.press(row.get_by_test_id("workspace-confirm"))
    expect(row).to_have_count(0)
    page.goto(service.url + "notifications")
    keys.write(page.get_by_test_id("webhook-url"), "https://hooks.slack.com/services/T0/B0/secret")
    keys.press(page.get_by_test_id("webhook-save"))
    failed = page.get_by_test_id("webhook-failed")
    keys.press(failed, "Space")
    expect(failed).to_be_checked()
    expect(failed).to_be_focused()
    keys.press(page.get_by_test_id("webhook-remove"))
    expect(failed).to_be_disabled()
