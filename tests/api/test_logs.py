"""The service's log: as text or as JSON, one entry a line, and no secret in it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from springtide.hub_extension.service.logs import JsonFormatter, TextFormatter, without_secrets

PROGRAM = """
import logging, sys
from springtide.hub_extension.service.logs import log_to_stderr
log_to_stderr("INFO", sys.argv[1])
logging.getLogger("springtide.test").info("two\\nlines, token=%s", "abc123")
try:
    raise ValueError("postgresql://pool:hunter2@db/pool refused")
except ValueError:
    logging.getLogger("springtide.test").exception("It failed.")
"""


def written(form: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, form], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


def test_json_is_one_object_a_line_without_secrets() -> None:
    first, second = map(json.loads, written("json").splitlines())
    assert (first["level"], first["logger"]) == ("info", "springtide.test")
    assert first["message"] == "two\nlines, token=[hidden]"
    assert first["time"].endswith("Z")
    assert second["message"] == "It failed."
    assert "postgresql://pool:[hidden]@db/pool refused" in second["exception"]


def test_text_has_no_secret_either() -> None:
    text = written("text")
    assert " I springtide.test: two\nlines, token=[hidden]" in text
    assert "hunter2" not in text
    assert "abc123" not in text


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        ("Authorization: token deadbeef", "Authorization: token [hidden]"),
        ("Authorization: Bearer deadbeef", "Authorization: Bearer [hidden]"),
        ('{"api_token": "deadbeef", "name": "joe"}', '{"api_token": "[hidden]", "name": "joe"}'),
        ("GET /jobs?token=deadbeef&limit=3", "GET /jobs?token=[hidden]&limit=3"),
        ("JUPYTERHUB_API_TOKEN=deadbeef set", "JUPYTERHUB_API_TOKEN=[hidden] set"),
        ("password='a b'", "password='[hidden] b'"),
        ("cookie_secret: deadbeef", "cookie_secret: [hidden]"),
        ("http://joe:pw@127.0.0.1:8000/x", "http://joe:[hidden]@127.0.0.1:8000/x"),
        ("The job tokenizer runs on 2 GPUs: fine", "The job tokenizer runs on 2 GPUs: fine"),
        ("http://127.0.0.1:8000/jobs/a@b", "http://127.0.0.1:8000/jobs/a@b"),
    ],
)
def test_what_is_named_like_a_secret_is_hidden(said: str, hidden: str) -> None:
    assert without_secrets(said) == hidden


def test_both_formats_take_arguments_apart_from_the_message() -> None:
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "%d GPUs", (3,), None)
    assert TextFormatter().format(record).endswith("W x: 3 GPUs")
    assert json.loads(JsonFormatter().format(record))["message"] == "3 GPUs"
