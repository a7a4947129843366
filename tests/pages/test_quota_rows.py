"""Rows of the page Projects and quotas: nothing is cut off, with several GPU types too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.scheduler import wire
from springtide.scheduler.telemetry import discover

TYPES = ("nvidia-a100-80gb", "nvidia-h100-80gb", "t4")
CUT_OFF = """
(shown) => {
  const frame = shown.closest(".table-responsive").getBoundingClientRect();
  const right = Math.min(frame.right, document.documentElement.clientWidth);
  const isCut = (each) => {
    const box = each.getBoundingClientRect();
    return box.right > right + 0.5 || box.left < frame.left - 0.5 || each.scrollWidth > each.clientWidth + 1;
  };
  const controls = [...shown.querySelectorAll("button, input, select")].filter((each) => each.checkVisibility());
  return controls.filter(isCut).map((each) => each.dataset.testid ?? each.textContent);
}
"""
"""The controls of a table that its frame or the window cuts off."""


@pytest.fixture(scope="module", params=[1, 2, 3])
def pool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A pool with this number of GPU types."""
    types = TYPES[: request.param]
    machine = discover(dict.fromkeys(types, 4), dict.fromkeys(types, 1))
    projects = wire.ProjectEdit(quota=dict.fromkeys(types, 1))
    service = Service(tmp_path_factory.mktemp("types"), machine, projects)
    service.start()
    yield service
    service.stop()


@pytest.fixture
def admin(windows: Windows, pool: Service) -> Page:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "admin", "url": pool.url}])
    page.goto(pool.url + "admin")
    expect(page.get_by_test_id("project-row-nlp")).to_be_visible()
    return page


@pytest.mark.parametrize("width", [1000, 1280, 1440, 1920])
def test_no_field_and_no_action_of_a_row_is_cut_off(admin: Page, width: int) -> None:
    admin.set_viewport_size({"width": width, "height": 900})
    table = admin.get_by_test_id("projects")
    expect(admin.get_by_test_id("freeze-nlp")).to_be_visible()
    expect(admin.get_by_test_id("delete-nlp")).to_be_visible()
    assert table.evaluate(CUT_OFF) == []
    admin.get_by_test_id("edit-weight-nlp").fill("3")
    for action in ("until-nlp", "discard-nlp", "save-nlp"):
        expect(admin.get_by_test_id(action)).to_be_visible()
    admin.get_by_test_id("new-project-open").click()
    admin.get_by_test_id("new-project-name").fill("audio")
    expect(admin.get_by_test_id("new-project-save")).to_be_visible()
    admin.get_by_test_id("delete-vision").click()
    expect(admin.get_by_test_id("delete-confirm-vision")).to_be_visible()
    admin.get_by_test_id(re.compile("edit-own-.*susan")).first.fill("1")
    expect(admin.get_by_test_id("save-person-susan")).to_be_visible()
    assert table.evaluate(CUT_OFF) == []
    assert admin.get_by_test_id("people").evaluate(CUT_OFF) == []
    assert admin.evaluate("document.documentElement.scrollWidth") <= width
