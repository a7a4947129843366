"""TensorBoard on a Unix socket: other accounts of the machine cannot open it, as they could a port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorboard import program
from werkzeug.serving import WSGIRequestHandler, make_server


class QuietHandler(WSGIRequestHandler):
    """Requests without a line in the log for each."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


class SocketServer(program.TensorBoardServer):
    """Serves TensorBoard's pages on the socket ``place``."""

    def __init__(self, wsgi_app: Any, place: Path) -> None:
        self._place = place
        self._http = make_server(f"unix://{place}", 0, wsgi_app, threaded=True, request_handler=QuietHandler)

    def serve_forever(self) -> None:
        """Serve until the process ends."""
        self._http.serve_forever()

    def get_url(self) -> str:
        """Return the address of the socket."""
        return f"unix://{self._place}"


def serve(logs: Path, place: Path, *, title: str, reload_s: int) -> None:
    """Serve the folder ``logs`` on the socket ``place`` in a thread; read its files every ``reload_s`` seconds."""
    board = program.TensorBoard(server_class=lambda wsgi_app, _flags: SocketServer(wsgi_app, place))
    flags = {"logdir": str(logs), "load_fast": "false", "window_title": title, "reload_interval": reload_s}
    board.configure(argv=("tensorboard", *(f"--{name}={value}" for name, value in flags.items())))
    board.launch()
