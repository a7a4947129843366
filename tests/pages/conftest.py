"""A browser, the gallery of drawings, and the service with its pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsers.browser import keep_process, launched, running_browser
from playwright.sync_api import Browser, BrowserContext, Page
from pools.pages_service import PERSON, WIDE, Service, Windows

HERE = Path(__file__).parent
GROUPS = 3
VISUALS = HERE.parents[1] / "widgets" / "visuals"
LAB = VISUALS.parent / "lab_extension" / "static"
PAGES = HERE.parents[1] / "hub_extension" / "pages" / "static"
FOLDERS = {"lab/": LAB, "pages/": PAGES}
"""The folders of modules that have the picture language below them, by where they are served."""


class GalleryHandler(SimpleHTTPRequestHandler):
    """Serves this folder, the picture language under ``/visuals``, the lab extension and the pages."""

    def translate_path(self, path: str) -> str:
        name = path.partition("?")[0].removeprefix("/")
        for start, folder in FOLDERS.items():
            if name.startswith(start) and not name.startswith(f"{start}visuals/"):
                return str(folder / name.removeprefix(start))
            name = name.removeprefix(start)
        if name.startswith("visuals/"):
            return str(VISUALS / name.removeprefix("visuals/"))
        return str(HERE / (name or "gallery.html"))

    def log_message(self, *_args: object) -> None:
        """Keep quiet."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files in a few groups, each of which has one browser; each file has a service of its own."""
    here = [item for item in items if item.path.is_relative_to(HERE)]
    group_of = {path: f"pages-{place % GROUPS}" for place, path in enumerate(sorted({item.path for item in here}))}
    for item in here:
        item.add_marker(pytest.mark.xdist_group(group_of[item.path]))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def usual_context(browser: Browser) -> Iterator[BrowserContext]:
    """Where windows without wishes of their own open: what pages load is kept from one to the next."""
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
    keep_process(context)
    yield context
    context.close()


@pytest.fixture
def windows(browser: Browser, usual_context: BrowserContext) -> Iterator[Windows]:
    windows = Windows(browser, usual_context)
    yield windows
    windows.close()
    assert not windows.errors


@pytest.fixture(scope="module")
def gallery_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(GalleryHandler, directory=str(HERE)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/gallery.html"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def shared_gallery(browser: Browser, usual_context: BrowserContext, gallery_url: str) -> Iterator[Page]:
    windows = Windows(browser, usual_context)
    page = windows.open(apart=True)  # some tests set its clock, and a clock is that of all windows of a context
    page.goto(gallery_url)
    page.wait_for_function("window.gallery")
    yield page
    windows.close()
    assert not windows.errors


@pytest.fixture
def gallery(shared_gallery: Page, request: pytest.FixtureRequest) -> Page:
    """The gallery as it was when it opened, or the ``SECTIONS`` of it that the tests of a file draw with."""
    shared_gallery.set_viewport_size(WIDE)
    shared_gallery.emulate_media(reduced_motion="reduce")  # else cards are painted sixty times a second
    shared_gallery.mouse.move(0, 0)
    shared_gallery.evaluate("gallery.reset", getattr(request.module, "SECTIONS", None))
    return shared_gallery


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("pool"))
    service.start()
    yield service
    service.stop()


@pytest.fixture
def service(shared_service: Service) -> Iterator[Service]:
    yield shared_service
    shared_service.end_jobs()


@pytest.fixture
def visit(windows: Windows, service: Service) -> Callable[..., Page]:
    """Open a page of the service as a person."""

    def visit(name: str, path: str = "", **options: Any) -> Page:
        page = windows.open(**options)
        page.context.add_cookies([{"name": PERSON, "value": name, "url": service.url}])
        page.goto(service.url + path)
        return page

    return visit


@pytest.fixture
def notified(browser: Browser, service: Service) -> Iterator[Page]:
    """A page in a browser with notifications, which the headless shell lacks."""
    with launched(browser.browser_type, whole=True) as whole:
        context = whole.new_context(permissions=["notifications"])
        context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
        yield context.new_page()
