"""The pages for people, in the hub's own look: its templates and style sheet around ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader
from jupyterhub._data import DATA_FILES_PATH
from tornado.web import HTTPError, StaticFileHandler

from springtide.hub_extension.handler import PageHandler, SiteHandler
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Problem

HERE: Final = Path(__file__).parent
VISUALS: Final = HERE.parent / "widgets" / "visuals"

_INLINE_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>.*?</script>", re.DOTALL | re.IGNORECASE)


class HubTemplates(FileSystemLoader):
    """The hub's templates without their inline scripts, which our Content-Security-Policy forbids."""

    def get_source(self, environment: Environment, template: str) -> Any:
        """The template's source; see `jinja2.BaseLoader.get_source`."""
        source, name, fresh = super().get_source(environment, template)
        return _INLINE_SCRIPT.sub("", source), name, fresh


@dataclass(frozen=True, slots=True)
class Viewer:
    """What the hub's frame shows of who is logged in."""

    name: str


@dataclass(frozen=True, slots=True)
class Site:
    """Where things are: ``prefix`` of the service and ``hub_prefix``, both with slashes around."""

    prefix: str
    hub_prefix: str
    templates: Environment

    def hub_static(self, path: str, *, include_version: bool = True) -> str:  # noqa: ARG002 - the hub's signature
        """Where the hub serves one of its static files."""
        return f"{self.hub_prefix}static/{path}"


class Page(PageHandler):
    """One page: a template that its script fills by the pool's API."""

    def initialize(self, **settings: Any) -> None:
        """Take what the page is: its ``site`` and ``page``, and whether it is for ``admins_only``."""
        super().initialize(**settings)
        self._site: Site = settings["site"]
        self._page: str = settings["page"]
        self._admins_only: bool = settings.get("admins_only", False)

    async def get(self, job: str = "") -> None:
        """Show the page."""
        caller = self.current_user
        if self._admins_only and not caller.admin:
            raise Refusal(
                403,
                "forbidden",
                "Only administrators of the pool see this page.",
                hint="Ask an administrator to change projects and quotas.",
            )
        await self.finish(self._rendered(self._page, job=job))

    def write_problem(self, problem: Problem) -> None:
        """Show the problem in words, on a page like the others."""
        self.finish(self._rendered("problem", problem=problem))

    def _rendered(self, page: str, **given: Any) -> str:
        site, caller = self._site, self.current_user
        self.set_header("Content-Type", "text/html; charset=utf-8")
        return site.templates.get_template(f"{page}.html").render(
            page=page,
            user=None if caller is None else Viewer(caller.name),
            admin=caller is not None and caller.admin,
            prefix=site.prefix,
            base_url=site.hub_prefix,
            logo_url=f"{site.hub_prefix}home",
            login_url=f"{site.hub_prefix}login",
            logout_url=f"{site.hub_prefix}logout",
            static_url=site.hub_static,
            xsrf_token=self.xsrf_token.decode("ascii"),
            **given,
        )


class NotFoundPage(Page):
    """Tells that there is nothing at an address: people on a page like the others, programs as the API does."""

    async def prepare(self) -> None:
        """Nobody has to log in to be told."""
        await self.identify()
        raise HTTPError(404)

    def write_problem(self, problem: Problem) -> None:
        """Show the problem to a browser, answer it to all else."""
        if "text/html" in self.request.headers.get("Accept", ""):
            super().write_problem(problem)
        else:
            SiteHandler.write_problem(self, problem)


class Files(StaticFileHandler):
    """Scripts and style sheets: the same for everyone, checked for a newer version each time."""

    def set_extra_headers(self, _path: str) -> None:
        """Have browsers ask whether theirs is the newest, so that an upgrade is whole at once."""
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        """Serve scripts and style sheets only."""
        if Path(absolute_path).suffix not in {".js", ".css", ".svg"}:
            raise HTTPError(404)
        return super().validate_absolute_path(root, absolute_path)


def page_handlers(prefix: str, hub_prefix: str = "/hub/") -> list[tuple[str, type[Any], dict[str, Any]]]:
    """Handlers of all pages and of what they load, for an application with the settings of `SiteHandler`.

    ``prefix`` is the service's, ``hub_prefix`` the hub's, as browsers see them.
    """
    prefix = f"/{prefix.strip('/')}/".replace("//", "/")
    hub_prefix = f"/{hub_prefix.strip('/')}/".replace("//", "/")
    site = Site(prefix, hub_prefix, _templates())
    at = re.escape(prefix)
    return [
        (rf"{at}(?:jobs/?)?", Page, {"site": site, "page": "jobs"}),
        (rf"{at}jobs/([\w.~-]{{1,128}})", Page, {"site": site, "page": "job"}),
        (rf"{at}pool", Page, {"site": site, "page": "pool"}),
        (rf"{at}admin", Page, {"site": site, "page": "projects", "admins_only": True}),
        (rf"{at}static/visuals/(.+)", Files, {"path": str(VISUALS)}),
        (rf"{at}static/(.+)", Files, {"path": str(HERE / "static")}),
        (rf"{at}(?!api/).+", NotFoundPage, {"site": site, "page": "problem"}),
    ]


def _templates() -> Environment:
    hub = Path(DATA_FILES_PATH)
    loader: BaseLoader = ChoiceLoader(
        [FileSystemLoader(HERE / "templates"), HubTemplates(hub / "templates")],
    )
    environment = Environment(loader=loader, autoescape=True)
    environment.globals["modules"] = sorted(
        path.name for path in VISUALS.glob("*.js") if not path.name.endswith("_widget.js")
    )
    environment.globals["theme_switch"] = (hub / "static" / "js" / "darkmode.js").exists()
    return environment
