"""The service's log, as text or as one JSON object a line, without secrets."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import Final, Literal

Format = Literal["text", "json"]
TEXT: Final = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
CHATTY: Final = ("tornado.application", "alembic", "asyncio", "httpx", "httpcore")
"""Loggers of libraries that are limited to warnings."""
HIDDEN: Final = "[hidden]"

_NAMED = re.compile(
    r"(?i)\b(authorization|(?:[\w-]*(?:token|secret|password|passwd|cookie|api[_-]?key))\w*)"
    r"([\"']?\s*[:=]\s*[\"']?)((?:token|bearer|basic)\s+)?([^\s\"'&,;}\])]+)"
)
_IN_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):([^\s/@]+)@")


def without_secrets(text: str) -> str:
    """Return the text with passwords in URLs and values that are named like secrets hidden."""
    return _NAMED.sub(rf"\1\2\3{HIDDEN}", _IN_URL.sub(rf"\1:{HIDDEN}@", text))


class TextFormatter(logging.Formatter):
    """Lines for people."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback of an exception."""
        return without_secrets(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, and any ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        if record.exc_info:
            entry["exception"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


def log_to_stderr(level: int | str, form: Format) -> None:
    """Write the log of all libraries to the standard error output."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
