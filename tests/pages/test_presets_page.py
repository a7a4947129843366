"""Presets of jobs on the page Projects and quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]


@pytest.fixture(autouse=True)
def nothing_left(service: Service) -> Iterator[None]:
    """Leave no preset behind, no lead, and the ranges of projects as they were."""
    yield
    presets = service.engine.presets
    for each in presets.listed([], None):
        service.run(presets.remove(each.project, each.name, "admin"))
    service.people.administers.pop("susan", None)
    for project in ("vision", "nlp"):
        whole = wire.ProjectEdit(ranges=wire.JobRanges())
        service.run(service.engine.edit_project(project, whole, "admin", members={}))


def test_a_preset_is_defined_changed_and_deleted(visit: Visit, service: Service) -> None:
    page = visit("admin", "admin")
    section = page.get_by_test_id("presets-section")
    expect(section).to_contain_text("There are no presets.")
    page.get_by_test_id("preset-new").click()
    page.get_by_test_id("form-name").fill("small")
    page.get_by_test_id("form-project").select_option("vision")
    page.get_by_test_id("form-about").fill("For a first try.")
    page.get_by_test_id("form-gpus").fill("many")
    page.get_by_test_id("preset-save").click()
    expect(page.get_by_test_id("form-gpus-wrong")).to_contain_text("expected a whole number")
    page.get_by_test_id("form-gpus").fill("2")
    page.get_by_test_id("form-priority").select_option("high")
    page.get_by_test_id("preset-save").click()
    row = page.get_by_test_id("preset")
    expect(row).to_contain_text("GPUs 2, Priority high")
    expect(row).to_contain_text("For a first try.")
    expect(page.get_by_test_id("audit-row").first).to_contain_text("defined the preset small")
    row.get_by_test_id("preset-edit").click()
    expect(page.get_by_test_id("form-priority")).to_have_value("high")
    page.get_by_test_id("form-priority").select_option("")
    page.get_by_test_id("form-time_limit").fill("2h")
    page.get_by_test_id("preset-save").click()
    expect(row).to_contain_text("GPUs 2, Time limit 2h")
    assert service.engine.presets.named("small", "vision").options == {"gpus": 2, "time_limit": 7200.0}
    row.get_by_test_id("preset-delete").click()
    row.get_by_test_id("preset-delete-yes").click()
    expect(row).to_have_count(0)
    deleted = page.get_by_test_id("audit-row").filter(has_text="deleted the preset small")
    deleted.get_by_role("button", name="Undo").click()
    expect(page.get_by_test_id("audit-row").first).to_contain_text("took back deleting the preset small")
    assert service.engine.presets.named("small", "vision").options == {"gpus": 2, "time_limit": 7200.0}


def test_rules_are_copied_once_what_changes_was_seen(visit: Visit, service: Service) -> None:
    engine = service.engine
    service.run(engine.presets.set("vision", "small", wire.PresetPart(options={"gpus": 1}), "admin"))
    ranges = wire.JobRanges(max_gpus=2)
    service.run(engine.edit_project("vision", wire.ProjectEdit(ranges=ranges), "admin", members={}))
    page = visit("admin", "admin")
    page.get_by_test_id("copy-rules-nlp").click()
    page.get_by_test_id("copy-source").select_option("vision")
    changes = page.get_by_test_id("copy-changes")
    expect(changes.get_by_role("listitem")).to_have_text(
        ["“nlp”: range max_gpus none → 2", "“nlp”: preset small none → GPUs 1"]
    )
    page.get_by_test_id("copy-confirm").click()
    expect(changes).to_have_count(0)
    expect(page.get_by_test_id("ranges-nlp")).to_contain_text("up to 2 GPUs")
    assert engine.presets.named("small", "nlp").project == "nlp"
    page.get_by_test_id("copy-rules-nlp").click()
    page.get_by_test_id("copy-source").select_option("vision")
    expect(page.get_by_test_id("copy-same")).to_have_text("nlp has the rules of vision already.")


def test_leads_change_presets_of_their_projects_and_keep_the_variables_of_admins(
    visit: Visit, service: Service
) -> None:
    of_pool = wire.PresetPart(options={"gpus": 1})
    loud = wire.PresetPart(options={"gpus": 1, "env": {"A": "1"}})
    service.run(service.engine.presets.set(None, "tiny", of_pool, "admin"))
    service.run(service.engine.presets.set("vision", "loud", loud, "admin"))
    service.people.administers["susan"] = frozenset({"vision"})
    page = visit("susan", "admin")
    rows = page.get_by_test_id("preset")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="tiny").get_by_role("button")).to_have_count(0)
    rows.filter(has_text="loud").get_by_test_id("preset-edit").click()
    expect(page.get_by_test_id("form-env")).to_have_count(0)
    expect(page.get_by_test_id("preset-editor")).to_contain_text(
        "These stay as an administrator has set them: env."
    )
    page.get_by_test_id("form-gpus").fill("2")
    page.get_by_test_id("preset-save").click()
    expect(rows.filter(has_text="loud")).to_contain_text("GPUs 2, Environment A=1")
