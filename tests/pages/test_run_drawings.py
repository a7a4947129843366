"""The table of jobs as it is drawn: names of forks, marks of the order, groups and the usual columns."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

FORK = "long-training-of-a-model-1, from step 190 (2)"
TABLE = """async ({ jobs, filters, width }) => {
    const { drawTable } = await import("/visuals/views/run_table.js");
    const { ChosenColumns } = await import("/visuals/views/run_columns.js");
    const { renderJobRows } = await import("/visuals/views/job_rows.js");
    const { patch } = await import("/visuals/base/dom.js");
    const { job, NOW } = gallery;
    const table = document.createElement("div");
    table.className = "springtide st-page";
    const panel = document.createElement("div");
    panel.className = "st-panel";
    for (const place of [table, panel]) place.style.width = `${width}px`;
    document.body.replaceChildren(table, panel);
    const selection = { has: () => false, hasAll: () => false };
    const all = jobs.map((more, place) => ({ arguments: {}, archived: false, ...job(more), id: `job-${place}` }));
    const draw = (chosen) => patch(table, drawTable({ jobs: all, now: NOW, filters: { ...filters, ...chosen },
        open: new Set(), selection, href: () => "#", tagHref: () => null, leftOut: new Set(),
        more: new ChosenColumns(() => {}, "one").of(all) }, { choose: draw, toggle() {}, drawCard() {} }));
    draw({});
    renderJobRows(panel, { jobs: all, now: NOW, colours: new Map(), more: 0 }, () => "#");
}"""


def draw_table(page: Page, *jobs: dict[str, Any], width: int = 1200, **filters: Any) -> Locator:
    """Draw jobs of the gallery, changed so, as a table and as rows; return the table."""
    page.set_viewport_size({"width": max(width, 800), "height": 900})
    page.evaluate(TABLE, {"jobs": jobs, "filters": {"order": "name", **filters}, "width": width})
    return page.get_by_test_id("job-list")


@pytest.mark.parametrize("width", [300, 1200])
def test_the_name_of_a_fork_keeps_the_beginning_of_its_parent_s_and_the_whole_name_is_its_tip(
    gallery: Page, width: int
) -> None:
    draw_table(gallery, {"name": FORK}, width=width)
    for name in gallery.locator(".st-fork-name").all():
        expect(name).to_have_text(FORK)
        expect(name).to_have_attribute("title", FORK)
        box, row = name.locator(".st-fork-begin").bounding_box(), name.locator("xpath=..").bounding_box()
        assert box is not None
        assert row is not None
        assert box["x"] >= row["x"] - 1
        assert box["width"] >= 20, "the beginning is cut"
        assert box["x"] + box["width"] <= row["x"] + row["width"] + 1
    link = gallery.get_by_test_id("row-name").locator(".st-fork-begin")
    assert "underline" in link.evaluate("part => getComputedStyle(part).textDecorationLine")


def test_the_name_of_a_fork_is_cut_in_its_parent_s_part_first(gallery: Page) -> None:
    draw_table(gallery, {"name": FORK}, width=430)
    name = gallery.get_by_test_id("job-rows").locator(".st-fork-name")
    is_cut = "part => part.scrollWidth > part.clientWidth"
    assert name.locator(".st-fork-rest").evaluate(is_cut)
    assert not name.locator(".st-fork-mark").evaluate(is_cut)


def test_one_mark_stands_for_one_order_in_the_tables_of_jobs_and_of_trials(gallery: Page) -> None:
    table = draw_table(gallery, {"name": "a"}, {"name": "b"})
    marks = {"ascending": "▴", "descending": "▾"}
    for column, orders in (("name", ("descending", "ascending")), ("GPUs", ("descending", "ascending"))):
        head = table.locator(f"th[data-column='{column}']")
        for order in orders:
            head.get_by_role("button").click()
            expect(head).to_have_attribute("aria-sort", order)
            expect(head.get_by_test_id("sort-mark")).to_have_text(marks[order])
    head = table.locator("th[data-column='time']")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")


def test_a_sweep_is_marked_by_the_same_order(gallery: Page) -> None:
    head = gallery.locator("#sweep-running th[aria-sort='ascending']")
    expect(head.get_by_test_id("sort-mark")).to_have_text("▴")
    head.get_by_role("button").click()
    down = gallery.locator("#sweep-running th[aria-sort='descending']")
    expect(down.get_by_test_id("sort-mark")).to_have_text("▾")


def test_groups_of_alike_names_say_from_which_to_which(gallery: Page) -> None:
    names = ("fit-10", "fit-2", "fit-1", "eval", "eval")
    draw_table(gallery, *({"name": name} for name in names), group="name")
    groups = gallery.get_by_test_id("job-group")
    expect(groups).to_have_text(["fit-1 to fit-10 · 3", "eval · 2"])
    expect(groups.first.locator("th")).to_have_attribute("title", "Jobs whose names differ in their numbers alone")


def test_all_arguments_that_differ_are_columns(gallery: Page) -> None:
    few = {"epochs": 3, "pause": 1, "drop_at": 0, "seed": 7}
    arguments = [{**few, "lr": n / 10, "depth": n % 3} for n in range(6)]
    arguments[0] |= {"epochs": 4, "pause": 2}
    arguments[1] |= {"drop_at": 5}
    table = draw_table(gallery, *({"name": f"run-{n}", "arguments": each} for n, each in enumerate(arguments)))
    differ = {"epochs", "pause", "drop_at", "lr", "depth"}
    assert {name for name in (*differ, "seed") if column(table, name).count()} == differ


@pytest.mark.parametrize(
    ("jobs", "left_out"),
    [
        ([{"user": "ada", "project": "vision"}, {"user": "bob", "project": "speech"}], []),
        ([{"user": "ada", "project": "vision"}, {"user": "bob", "project": "vision"}], ["project"]),
        ([{"user": "ada", "project": "vision"}] * 2, ["project", "user"]),
    ],
    ids=["of two projects", "of two people", "of one person"],
)
def test_people_and_projects_that_differ_give_way_to_no_other_column(
    gallery: Page, jobs: list[dict[str, Any]], left_out: list[str]
) -> None:
    given = """async (jobs) => {
        const { ChosenColumns } = await import("/visuals/views/run_columns.js");
        const columns = new ChosenColumns(() => {}, "narrow");
        const all = jobs.map((more, place) => {
            const job = gallery.job({ ...more, id: `job-${place}` });
            return { ...job, arguments: { lr: place, depth: -place } };
        });
        for (let left = 0; left < 20 && columns.of(all).length > 1; left += 1) columns.narrowed(all);
        return [...columns.leftOut(all)].sort();
    }"""
    assert gallery.evaluate(given, jobs) == left_out


def column(table: Locator, name: str) -> Locator:
    return table.locator(f"th[data-column='argument.{name}']")


def test_the_card_of_a_run_again_does_not_touch_the_one_before_it(gallery: Page) -> None:
    gallery.evaluate(
        """() => {
            const place = document.createElement("div");
            document.body.replaceChildren(place);
            for (const id of ["first", "again"]) {
                const card = document.createElement("article");
                place.append(card);
                gallery.renderJobCard(card, { job: gallery.job({ id }), now: gallery.NOW, colour: 0 }, {});
            }
        }"""
    )
    first, again = (card.bounding_box() for card in gallery.get_by_test_id("job-card").all())
    assert first is not None
    assert again is not None
    assert again["y"] >= first["y"] + first["height"] + 8


def test_a_sweep_of_which_no_trial_runs_says_what_each_of_them_asks_for(gallery: Page) -> None:
    trials = {"number": 12, "succeeded": 3, "gpus": 0, "borrowed": 0, "best": None}
    counts = dict.fromkeys(("pruned", "failed", "cancelled", "running", "paused", "queued"), 0)
    options = {"gpus": 2, "workers": 1, "min_workers": 1, "tags": [], "gpu_types": []}
    waits = {"state": "queued", "shown": "queued", "held": [], "options": options}
    table = draw_table(gallery, {**waits, "trials": {**counts, **trials}}, {**waits, "name": "plain"})
    assert [cell.inner_text() for cell in table.locator("td[data-label=GPUs]").all()] == ["2 each", "2"]
