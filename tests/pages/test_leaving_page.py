"""Letting a person leave, on the page Projects and quotas."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect
from pools.pages_service import Service

Visit = Callable[..., Page]


def test_a_person_leaves_after_a_preview_and_her_job_goes_to_another(visit: Visit, service: Service) -> None:
    service.people.groups["vision"] = ["susan", "joe"]
    try:
        job = service.submit("susan", name="runs", gpus=1)
        service.until(job.id, lambda found: found.state == "running")
        page = visit("admin", "admin")
        page.get_by_test_id("leave-susan").click()
        preview = page.get_by_test_id("leaving-susan")
        expect(preview).to_contain_text("“vision” has one member less.")
        expect(preview).to_contain_text("is cancelled.")
        page.get_by_test_id("leave-to-susan").fill("jemma")
        page.get_by_test_id("leave-to-susan").press("Tab")
        expect(preview).to_contain_text("“jemma” is not a member of “vision”")
        expect(page.get_by_test_id("leave-confirm-susan")).to_be_disabled()
        page.get_by_test_id("leave-to-susan").fill("joe")
        page.get_by_test_id("leave-to-susan").press("Tab")
        expect(preview).to_contain_text("goes to “joe”")
        assert "susan" in service.people.groups["vision"]
        page.get_by_test_id("leave-confirm-susan").click()
        expect(page.get_by_test_id("member-vision-susan")).to_have_count(0)
        service.until(job.id, lambda found: found.state == "paused")
        outside = page.get_by_test_id("people-outside")
        expect(outside).to_contain_text("susan")
        expect(outside).to_contain_text("One job is being paused")
        page.get_by_test_id("leave-susan").click()
        page.get_by_test_id("leave-to-susan").fill("joe")
        page.get_by_test_id("leave-to-susan").press("Tab")
        expect(page.get_by_test_id("leaving-susan")).to_contain_text("with its outputs and checkpoints")
        page.get_by_test_id("leave-confirm-susan").click()
        expect(outside).to_have_count(0)
        assert service.until(job.id, lambda found: found.user == "joe").hold is None
    finally:
        service.people.groups["vision"] = ["susan"]


def test_keep_closes_the_preview_and_changes_nothing(visit: Visit, service: Service) -> None:
    page = visit("admin", "admin")
    page.get_by_test_id("leave-joe").click()
    expect(page.get_by_test_id("leaving-joe")).to_contain_text("“nlp” has one member less.")
    page.get_by_test_id("leave-not-joe").click()
    expect(page.get_by_test_id("leaving-joe")).to_have_count(0)
    assert service.people.groups["nlp"] == ["joe"]
