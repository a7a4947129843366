"""Pages of TensorBoard behind the log-in of the notebook server, and the page that opens one."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado.escape import xhtml_escape
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, authenticated

from springtide.widgets.connection import NOT_ON_HUB
from springtide.widgets.server_extension.boards import Board, Boards

JOBS: Final = r"([A-Za-z0-9]{1,64}(?:-[A-Za-z0-9]{1,64}){0,19})"
"""The ids of the jobs of a TensorBoard in its address, with dashes between them."""
MAX_BODY: Final = 2**20
"""Maximum size of a request to TensorBoard, in bytes: it names the runs and tags that are shown."""
SENT: Final = ("Accept", "Accept-Encoding", "Content-Type", "X-XSRF-Protected", "X-TensorBoard-Feature-Flags")
"""Headers that are passed on: no cookie and no token."""
KEPT: Final = ("Content-Type", "Content-Encoding", "Content-Security-Policy", "Cache-Control", "Expires")
"""Headers of an answer that are passed on."""
OWN_MARK: Final = "X-XSRF-Protected"
"""Header of TensorBoard's own requests. No page of another origin can send it."""
PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{again}
<title>TensorBoard</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 4em auto; padding: 0 1em }}
h1 {{ font-size: 1.25em }}
progress {{ width: 100% }}
</style></head><body><main data-state="{state}"><h1>TensorBoard</h1>{words}</main></body></html>
"""
PROGRESS: Final = (
    '<progress aria-label="TensorBoard is being started"></progress>'
    "<p>This page becomes TensorBoard as soon as it is ready. It ends half an hour after its last use.</p>"
)
AGAIN: Final = '<meta http-equiv="refresh" content="1">'


class BoardHandler(JupyterHandler):
    """A TensorBoard: the page that shows how far it is, then its own pages."""

    auth_resource = "springtide"
    _track_activity = False  # an open page is no sign of activity

    def initialize(self, boards: Boards, has_pool: bool) -> None:
        """Store the TensorBoards of the server, and whether it has a pool."""
        self._boards = boards
        self._has_pool = has_pool

    def check_xsrf_cookie(self) -> None:
        """Raise `HTTPError` 403 for a request of another origin that is more than a look."""
        if self.request.method not in {"GET", "HEAD"} and OWN_MARK not in self.request.headers:
            raise HTTPError(403, f"The header {OWN_MARK} is missing.")

    @authenticated
    @authorized
    async def get(self, jobs: str, path: str | None = None) -> None:
        """Pass a request on, or show how far TensorBoard is."""
        if path is None:
            self.redirect(f"{urlsplit(self.request.uri or '').path}/")
        elif path:
            await self._pass_on(self._boards.known(jobs), path)
        else:
            await self._show(jobs)

    @authenticated
    @authorized
    async def post(self, jobs: str, path: str | None = None) -> None:
        """Pass a request on."""
        self.check_xsrf_cookie()
        if len(self.request.body) > MAX_BODY:
            raise HTTPError(413, f"A request to TensorBoard has {MAX_BODY} bytes at most.")
        await self._pass_on(self._boards.known(jobs), path or "")

    async def _show(self, jobs: str) -> None:
        if not self._has_pool:
            self._tell("failed", NOT_ON_HUB)
            return
        board = await self._boards.open(jobs)
        state, words = board.said.state, board.said.words
        if state == "failed":
            await self._boards.forget(jobs)
            self._tell(state, words, link="Try again")
        elif state == "reading":
            self._tell(state, words, again=True)
        elif board.said.notes and not board.told:
            board.told = True
            self._tell("noted", *board.said.notes, link="Open TensorBoard")
        else:
            await self._pass_on(board, "")

    def _tell(self, state: str, *sentences: str, again: bool = False, link: str = "") -> None:
        words = "".join(f"<p>{xhtml_escape(each)}</p>" for each in sentences)
        words += PROGRESS if again else ""
        words += f'<p><a href="">{link}</a></p>' if link else ""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(PAGE.format(again=AGAIN if again else "", state=state, words=words))

    async def _pass_on(self, board: Board | None, path: str) -> None:
        if board is None or board.http is None:
            raise HTTPError(503, "This TensorBoard has ended. Reload its page to open it again.")
        headers = {name: self.request.headers[name] for name in SENT if name in self.request.headers}
        query = f"?{self.request.query}" if self.request.query else ""
        request = board.http.build_request(
            str(self.request.method), f"/{path}{query}", headers=headers, content=self.request.body or None
        )
        try:
            answer = await board.http.send(request, stream=True)
            try:
                await self._relay(answer)
            finally:
                await answer.aclose()
        except httpx.TransportError as error:
            raise HTTPError(502, "TensorBoard does not answer.") from error
        except StreamClosedError:
            return

    async def _relay(self, answer: httpx.Response) -> None:
        self.set_status(answer.status_code)
        for name in KEPT:
            if name in answer.headers:
                self.set_header(name, answer.headers[name])
        self.set_header("X-Content-Type-Options", "nosniff")
        async for piece in answer.aiter_raw():
            self.write(piece)
            await self.flush()
        await self.finish()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer an error of the notebook server in words."""
        error = kwargs.get("exc_info", (None, None))[1]
        said = error.log_message if isinstance(error, HTTPError) else None
        self.set_status(status_code)
        self._tell("failed", said or f"The notebook server answered {status_code}.")
