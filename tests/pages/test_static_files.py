"""Scripts and style sheets of the pages: which there are, and how long browsers keep them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.hub_extension.pages.files import digest

Visit = Callable[..., Page]


@pytest.mark.parametrize(
    "path",
    ["site.js%00.css", "%00", "visuals/dom.js%00.js", "../site.js", "nothing.css", "0123456789abcdef/%00.js"],
)
def test_what_no_static_file_is_called_is_not_found(service: Service, path: str) -> None:
    answer = httpx.get(f"{service.url}static/{path}", trust_env=False)
    assert answer.status_code == 404
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


LOADED = """() => performance.getEntriesByType("resource")
  .filter((entry) => entry.name.includes("/springtide/static/"))
  .map((entry) => [entry.name, entry.transferSize])"""


PRELOADED = """() => [...document.querySelectorAll("link[rel=modulepreload], script[type=module]")]
  .map((element) => element.href || element.src)"""


def test_what_a_page_loads_is_asked_for_once(visit: Visit) -> None:
    for _ in range(2):
        page = visit("susan")
        expect(page.get_by_test_id("empty")).to_be_visible()
    loaded = dict(page.evaluate(LOADED))
    assert {name for name in loaded if name.endswith(".js")} == set(page.evaluate(PRELOADED))
    assert not [name for name, transferred in loaded.items() if transferred]


@pytest.mark.parametrize("version", ["", "0123456789abcdef/"], ids=["without a version", "of another version"])
def test_a_file_of_a_page_from_before_an_upgrade_is_the_one_there_is_now(service: Service, version: str) -> None:
    for name in ("site.js", "visuals/base/dom.js"):
        answer = httpx.get(f"{service.url}static/{version}{name}", trust_env=False)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-cache"


def test_files_have_another_address_when_one_of_them_changes(tmp_path: Path) -> None:
    seen = set()
    for name, content in (("site.js", "1"), ("job.js", "2"), ("job.js", "3"), ("site.js", "13"), ("job.js", "")):
        (tmp_path / name).write_text(content)
        seen.add(digest([tmp_path]))
    (tmp_path / "job.js").rename(tmp_path / "jobs.js")
    seen.add(digest([tmp_path]))
    assert len(seen) == 6
    assert digest([tmp_path]) in seen
