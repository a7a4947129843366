"""HTML pages with the hub's look: the hub's templates and style sheet around those of the service."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader
from jupyterhub._data import DATA_FILES_PATH
from tornado.web import HTTPError

from springtide.hub_extension.pages.files import digest, file_handlers
from springtide.hub_extension.web.handler import PageHandler, SiteHandler, page_policy
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Problem

HERE: Final = Path(__file__).parent
BRANDING: Final = HERE.parent / "branding"
"""Templates of the product's name and mark, which the hub's own pages share."""
VISUALS: Final = HERE.parent.parent / "widgets" / "visuals"
STATIC: Final = HERE / "static"

_INLINE_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>.*?</script>", re.DOTALL | re.IGNORECASE)
_IMPORT = re.compile(r'^(?:import|\}).* from "(\.{1,2}/[a-z_/]+\.js)";$', re.MULTILINE)


class HubTemplates(FileSystemLoader):
    """Loader of the hub's templates without inline scripts, which the pages' Content-Security-Policy forbids."""

    def get_source(self, environment: Environment, template: str) -> Any:
        """Return the template's source; see `jinja2.BaseLoader.get_source`."""
        source, name, fresh = super().get_source(environment, template)
        return _INLINE_SCRIPT.sub("", source), name, fresh


@dataclass(frozen=True, slots=True)
class Viewer:
    """The logged-in user, as the hub's templates show it."""

    name: str


@dataclass(frozen=True, slots=True)
class Site:
    """Addresses that pages use: ``prefix`` of the service and ``hub_prefix``, both with slashes at both ends.

    ``hub_host`` is the origin of the hub's pages, empty if it is the service's own. ``files`` is the digest of the
    pages' scripts and style sheets. ``is_notified`` returns whether a user has chosen events for the browser.
    """

    prefix: str
    hub_prefix: str
    hub_host: str
    is_notified: Callable[[str], bool]
    templates: Environment
    files: str

    def hub_static(self, path: str, *, include_version: bool = True) -> str:  # noqa: ARG002 - the hub's signature
        """Return the path of a static file of the hub, served on every origin, the page's included."""
        return f"{self.hub_prefix}static/{path}"


class Page(PageHandler):
    """One page: a template whose script loads its data from the pool's API."""

    def initialize(self, **settings: Any) -> None:
        """Store the ``site``, the name ``page`` of the template, and whether it is for ``admins_only``."""
        super().initialize(**settings)
        self._site: Site = settings["site"]
        self._page: str = settings["page"]
        self._admins_only: bool = settings.get("admins_only", False)

    async def get(self, job: str = "") -> None:
        """Send the page. Raises `Refusal` 403 for a page of administrators that another caller requests."""
        caller = self.current_user
        if self._admins_only and not caller.administers_some:
            raise Refusal(
                403,
                "forbidden",
                "Only administrators of the pool or of a project see this page.",
                hint="Ask an administrator to change projects and quotas.",
            )
        await self.finish(self._rendered(self._page, job=job, xsrf_token=self.xsrf_token.decode("ascii")))

    def write_problem(self, problem: Problem) -> None:
        """Show the problem on a page with the look of the others."""
        self.finish(self._rendered("problem", problem=problem))

    def _rendered(self, page: str, **given: Any) -> str:
        site, caller = self._site, self.current_user
        hub = site.hub_host + site.hub_prefix
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", page_policy(images_of=site.hub_host))
        return site.templates.get_template(f"{page}.html").render(
            page=page,
            user=None if caller is None else Viewer(caller.name),
            admin=caller is not None and caller.admin,
            administers=[] if caller is None else sorted(caller.administers),
            projects=[] if caller is None else sorted(caller.groups),
            hub_admin=caller is not None and caller.hub_admin,
            notified=caller is not None and site.is_notified(caller.name),
            prefix=site.prefix,
            files=f"{site.prefix}static/{site.files}/",
            base_url=hub,
            logo_url=f"{hub}home",
            login_url=f"{hub}login",
            logout_url=f"{hub}logout",
            static_url=site.hub_static,
            **given,
        )


class FirstPage(Page):
    """The page at the address of the service itself: that of the caller's jobs; administrators come home."""

    async def get(self, job: str = "") -> None:
        """Send the page, or the way to the home page unless a query asks for jobs."""
        caller = self.current_user
        if caller.admin and not self.request.query:
            self.redirect(f"{self._site.prefix}home")
            return
        await super().get(job)


class HomePage(Page):
    """The home page of administrators; those of a project have theirs instead."""

    async def get(self, job: str = "") -> None:
        """Send the page. Raises `Refusal` 403 for a caller who administers nothing."""
        caller = self.current_user
        if not caller.admin and caller.administers_some:
            self.redirect(f"{self._site.prefix}admin")
            return
        await super().get(job)


class NotFoundPage(Page):
    """Handler of unknown addresses: answers browsers with a page, and programs in the API's format."""

    async def prepare(self) -> None:
        """Raise `HTTPError` 404, also for callers who are not logged in."""
        await self.identify()
        raise HTTPError(404)

    def write_problem(self, problem: Problem) -> None:
        """Show the problem as a page to a browser, and as JSON to other clients."""
        if "text/html" in self.request.headers.get("Accept", ""):
            super().write_problem(problem)
        else:
            SiteHandler.write_problem(self, problem)


def page_handlers(
    prefix: str, hub_prefix: str = "/hub/", hub_host: str = "", *, is_notified: Callable[[str], bool]
) -> list[tuple[str, type[Any], dict[str, Any]]]:
    """Return the handlers of all pages and their files, for an application with the settings of `SiteHandler`.

    ``prefix`` is the service's, ``hub_prefix`` the hub's, as browsers see them; ``hub_host`` is the hub's origin
    if it differs from the service's. ``is_notified`` returns whether a user has chosen events for the browser.
    """
    prefix = f"/{prefix.strip('/')}/".replace("//", "/")
    hub_prefix = f"/{hub_prefix.strip('/')}/".replace("//", "/")
    site = Site(prefix, hub_prefix, hub_host, is_notified, _templates(), digest([VISUALS, STATIC]))
    at = re.escape(prefix)
    return [
        (at, FirstPage, {"site": site, "page": "jobs"}),
        (rf"{at}jobs/?", Page, {"site": site, "page": "jobs"}),
        (rf"{at}home", HomePage, {"site": site, "page": "home", "admins_only": True}),
        (rf"{at}jobs/([\w.~-]{{1,128}})", Page, {"site": site, "page": "job"}),
        (rf"{at}compare", Page, {"site": site, "page": "compare"}),
        (rf"{at}pool", Page, {"site": site, "page": "pool"}),
        (rf"{at}report", Page, {"site": site, "page": "report"}),
        (rf"{at}what-if", Page, {"site": site, "page": "what_if", "admins_only": True}),
        (rf"{at}workspaces", Page, {"site": site, "page": "workspaces"}),
        (rf"{at}notifications", Page, {"site": site, "page": "notifications"}),
        (rf"{at}admin", Page, {"site": site, "page": "projects", "admins_only": True}),
        *file_handlers(f"{at}static/", site.files, VISUALS, STATIC),
        (rf"{at}(?!api/).+", NotFoundPage, {"site": site, "page": "problem"}),
    ]


@cache
def modules_of(page: str) -> list[str]:
    """Return the paths, below that of the pages' files, of the modules that the script of a page imports."""
    found: set[str] = set()
    waiting = [f"{page}.js"]
    while waiting:
        name = waiting.pop()
        folder = VISUALS.parent if name.startswith("visuals/") else STATIC
        for path in _IMPORT.findall((folder / name).read_text(encoding="utf-8")):
            imported = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if imported not in found:
                found.add(imported)
                waiting.append(imported)
    return sorted(found)


def _templates() -> Environment:
    hub = Path(DATA_FILES_PATH)
    loader: BaseLoader = ChoiceLoader(
        [FileSystemLoader([HERE / "templates", BRANDING]), HubTemplates(hub / "templates")],
    )
    environment = Environment(loader=loader, autoescape=True)
    environment.globals["modules"] = modules_of
    environment.globals["theme_switch"] = (hub / "static" / "js" / "darkmode.js").exists()
    return environment
