"""The page Projects and quotas of a large pool: search, folds, and typed changes that are out of sight."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from browsers.axe import violations
from browsers.keyboard import Keyboard
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.scheduler import wire
from springtide.scheduler.telemetry import discover

Visit = Callable[..., Page]
TEAMS = {"vision": "research", "nlp": "research", "robots": "engineering", "speech": "engineering"}
PROJECTS = ["engineering", "robots", "speech", "research", "vision", "nlp", *(f"club-{at:02}" for at in range(34))]
PEOPLE = 300
HUB = HubConfiguration(
    configured_roles=(
        {"name": "nlp-admin", "scopes": ["custom:springtide:project-admin!group=nlp"], "users": ["jemma"]},
    ),
)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A pool with 40 projects and 300 people."""
    nothing = wire.ProjectEdit(quota=0, build_quota=0)
    service = Service(tmp_path_factory.mktemp("large"), discover(48, 8), nothing, hub=HUB)
    groups: dict[str, list[str]] = {name: [] for name in PROJECTS}
    leaves = [name for name in PROJECTS if name not in TEAMS.values()]
    for at in range(PEOPLE):
        groups[leaves[at % len(leaves)]].append(f"person-{at:03}")
    groups["nlp"].append("joe")
    service.people.groups = groups
    service.start()
    for department in set(TEAMS.values()):
        service.edit_project(department, quota=8)
    for team, department in TEAMS.items():
        service.edit_project(team, parent=department, quota=3)
    yield service
    service.stop()


@pytest.fixture
def visit(windows: Windows, large: Service) -> Visit:
    def visit(query: str = "", name: str = "admin") -> Page:
        page = windows.open()
        page.context.add_cookies([{"name": PERSON, "value": name, "url": large.url}])
        page.goto(f"{large.url}admin{query}")
        expect(page.get_by_test_id("rows-found")).to_be_visible()
        return page

    return visit


def heads(page: Page) -> list[str]:
    """Return the names of the projects whose heads are shown, from top to bottom."""
    ids = page.locator("[data-testid^=project-row-]").evaluate_all("(all) => all.map((one) => one.dataset.testid)")
    return [each.removeprefix("project-row-") for each in ids]


def test_projects_of_a_large_pool_begin_folded_below_heads_with_their_numbers(
    visit: Visit, large: Service
) -> None:
    job = large.submit("joe", gpus=4)
    large.until(job.id, lambda found: found.state == "running")
    page = visit()
    expect(page.get_by_test_id("rows-found")).to_have_text("40 projects, 301 people")
    assert sorted(heads(page)) == sorted(PROJECTS)
    assert page.get_by_test_id("project-nlp").count() == 0
    row = page.get_by_test_id("project-row-nlp")
    expect(row.locator("[data-label='GPUs held of the quota']")).to_have_text("4 of 3")
    expect(row.locator("[data-label=people]")).to_have_text("9")
    expect(row.locator("[data-label='led by']")).to_have_text("jemma")
    expect(page.get_by_test_id("project-row-research")).to_contain_text("inside: 6 of 8")
    expect(page.locator("[data-testid^=person-row-]")).to_have_count(20)
    page.get_by_test_id("people-all").click()
    expect(page.locator("[data-testid^=person-row-]")).to_have_count(301)
    large.end_jobs()


@pytest.mark.parametrize(
    ("search", "projects", "people"),
    [
        ("nlp", ["nlp"], 9),
        ("RESEARCH", ["research", "vision", "nlp"], 17),
        ("jemma", ["nlp"], 0),
        ("joe", ["nlp"], 1),
        ("person-007", ["club-03"], 1),
        ("nlp joe", ["nlp"], 1),
        ("nobody such", [], 0),
    ],
)
def test_a_search_finds_by_project_person_and_lead(
    visit: Visit, search: str, projects: list[str], people: int
) -> None:
    page = visit()
    page.get_by_test_id("search-rows").fill(search)
    expect(page.get_by_test_id("rows-found")).to_have_text(
        f"{len(projects)} of 40 projects, {people} of 301 people"
    )
    assert heads(page) == projects
    if search == "joe":
        expect(page.get_by_test_id("project-row-nlp")).to_contain_text("in research, with joe")
    if not projects:
        expect(page.get_by_text("No project is found.")).to_be_visible()
        expect(page.get_by_text("Nobody is found.")).to_be_visible()


def test_a_quota_is_found_and_changed_with_the_keys_alone(visit: Visit, large: Service) -> None:
    page = visit()
    keys = Keyboard(page)
    keys.write(page.get_by_test_id("search-rows"), "vision")
    fold = page.get_by_test_id("fold-vision")
    expect(fold).to_have_attribute("aria-expanded", "false")
    keys.press(fold)
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(fold).to_be_focused()
    keys.write(page.get_by_test_id("edit-quota-vision"), "5")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("audit-row").first).to_contain_text("changed project vision: quota 3 → 5")
    expect(page.get_by_test_id("project-row-vision")).to_contain_text("0 of 5")
    page.get_by_test_id("audit-row").first.get_by_role("button", name="Undo").click()
    expect(page.get_by_test_id("edit-quota-vision")).to_have_value("3")


def test_what_is_typed_stays_when_its_row_is_folded_or_not_found_and_is_counted(
    visit: Visit, large: Service
) -> None:
    page = visit("?shown=none&but=vision&but=nlp")
    page.get_by_test_id("edit-quota-vision").fill("4")
    page.get_by_test_id("edit-weight-nlp").fill("2")
    page.get_by_test_id("member-add-nlp").fill("somebody")
    hidden = page.get_by_test_id("changes-hidden")
    expect(page.get_by_test_id("save-all")).to_have_text("Save all 2 changes")
    expect(hidden).to_have_count(0)
    page.get_by_test_id("fold-nlp").click()
    expect(page.get_by_test_id("project-row-nlp")).to_contain_text("not saved")
    expect(hidden).to_contain_text("1 changed row is hidden: nlp.")
    page.get_by_test_id("search-rows").fill("person-20")
    page.get_by_test_id("edit-own-person-200").fill("1")
    expect(hidden).to_contain_text("2 changed rows are hidden: vision and nlp.")
    page.get_by_test_id("search-rows").fill("club-01")
    expect(hidden).to_contain_text("3 changed rows are hidden: vision, nlp and person-200.")
    expect(page.get_by_test_id("what-if")).to_contain_text("Saved like this")
    page.get_by_test_id("changes-show").click()
    expect(hidden).to_have_count(0)
    expect(page.get_by_test_id("fold-vision")).to_be_focused()
    expect(page.get_by_test_id("search-rows")).to_have_value("")
    for field, typed in (("edit-quota-vision", "4"), ("edit-weight-nlp", "2"), ("member-add-nlp", "somebody")):
        expect(page.get_by_test_id(field)).to_be_visible()
        expect(page.get_by_test_id(field)).to_have_value(typed)
    expect(page.get_by_test_id("edit-own-person-200")).to_have_value("1")
    page.get_by_test_id("search-rows").fill("club-01")
    page.get_by_test_id("save-all").click()
    expect(hidden).to_contain_text("2 changed rows are hidden: nlp and person-200.")
    page.get_by_test_id("search-rows").fill("nlp")
    expect(page.get_by_test_id("edit-weight-nlp")).to_have_value("2")
    expect(page.get_by_test_id("discard-nlp")).to_have_count(0)
    stored = {project.name: project for project in large.engine.pool().projects}
    assert (stored["vision"].quota, stored["nlp"].weight) == (4, 2.0)


def test_a_form_keeps_its_words_while_its_project_is_folded(visit: Visit) -> None:
    page = visit("?shown=none&but=robots")
    page.get_by_test_id("freeze-robots").click()
    page.get_by_test_id("freeze-why").fill("An audit of the data")
    for _ in range(2):
        page.get_by_test_id("fold-robots").click()
    page.get_by_test_id("search-rows").fill("nlp")
    expect(page.get_by_test_id("freeze-why")).to_be_hidden()
    page.get_by_test_id("search-rows").fill("")
    expect(page.get_by_test_id("freeze-why")).to_have_value("An audit of the data")


def test_all_that_are_found_open_together_and_the_address_keeps_it(visit: Visit) -> None:
    page = visit("?who=admin")
    page.get_by_test_id("search-rows").fill("research")
    page.get_by_test_id("open-all").click()
    expect(page.get_by_test_id("open-all")).to_have_text("Fold all")
    page.reload()
    for name in ("research", "vision", "nlp"):
        expect(page.get_by_test_id(f"edit-quota-{name}")).to_be_visible()
    expect(page.get_by_test_id("search-rows")).to_have_value("research")
    expect(page.get_by_test_id("audit-who")).to_have_value("admin")
    page.get_by_test_id("search-rows").fill("")
    expect(page.get_by_test_id("edit-quota-club-01")).to_have_count(0)
    page.get_by_test_id("open-all").click()
    expect(page.get_by_test_id("edit-quota-club-33")).to_be_visible()
    page.get_by_test_id("fold-nlp").click()
    page.reload()
    expect(page.get_by_test_id("edit-quota-club-33")).to_be_visible()
    expect(page.get_by_test_id("edit-quota-nlp")).to_have_count(0)
    page.get_by_test_id("open-all").click()
    page.get_by_test_id("open-all").click()
    expect(page.locator("[data-testid^=edit-quota-]:visible")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/admin\?who=admin$"))


def test_a_new_project_is_open_for_its_first_members(visit: Visit, large: Service) -> None:
    page = visit("?search=nlp")
    page.get_by_test_id("new-project-open").click()
    expect(page.get_by_test_id("new-project-name")).to_be_focused()
    page.get_by_test_id("new-project-name").fill("audio")
    page.get_by_test_id("new-project-save").click()
    expect(page.get_by_test_id("member-add-audio")).to_be_visible()
    expect(page.get_by_test_id("new-project")).to_have_count(0)
    large.people.groups.pop("audio")
    large.run(large.engine.delete_project("audio", "clean-up"))


def test_the_panel_of_a_project_leads_to_it(visit: Visit, large: Service) -> None:
    page = visit()
    page.goto(f"{large.url}home")
    page.get_by_test_id("open-club-05").click()
    page.get_by_role("link", name="Quotas and members").click()
    expect(page.get_by_test_id("edit-quota-club-05")).to_be_visible()
    assert heads(page) == ["club-05"]


def test_axe_finds_nothing_in_folded_open_and_hidden_rows(visit: Visit) -> None:
    page = visit("?search=research&shown=all")
    page.get_by_test_id("edit-weight-vision").fill("7")
    page.get_by_test_id("fold-vision").click()
    expect(page.get_by_test_id("changes-hidden")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("width", [360, 1000, 1440])
def test_no_head_and_no_field_is_wider_than_the_page(visit: Visit, width: int) -> None:
    page = visit("?search=research&shown=all")
    page.set_viewport_size({"width": width, "height": 900})
    page.get_by_test_id("edit-weight-vision").fill("7")
    expect(page.locator("html")).to_have_js_property("scrollWidth", width)
