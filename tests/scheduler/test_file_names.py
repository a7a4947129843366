"""Names of files in lists: one line each, understood by a shell, and read back as the same name."""

from __future__ import annotations

import subprocess

import pytest

from springtide.scheduler.file_names import is_quoted, listed_name, name_among

PLAIN = ("model.pt", "plots/loss 2.csv", r"caf\xe9.txt", "é 雪.txt", "<b>.txt", "$HOME")
ODD = (
    "x\ny.txt", "a\tb", "a\rb", " a", "a ", "a  b", "it's", 'say "a"', "\\'\\n", "\x1b[31mred", "\x7f", "\x85",
    "a\u202eb", "\u00a0", "\U000e0041", "$'x'", r"$'x\ny'", " a/\nb",
)  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_is_listed_as_it_is(name: str) -> None:
    assert listed_name(name) == name
    assert not is_quoted(name)
    assert name_among(name, []) == name


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_listed_in_quotes_that_lead_back_to_it(name: str) -> None:
    shown = listed_name(name)
    assert shown.isprintable()
    assert shown == " ".join(shown.split()) or "  " in name
    assert is_quoted(shown)
    assert name_among(shown, [name]) == name
    assert name_among(shown, []) == name
    read = subprocess.run(
        ["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert read.stdout.decode() == name


def test_a_file_that_is_called_as_another_is_listed_is_itself() -> None:
    text = r"$'x\ny'"
    assert name_among(text, ["x\ny", text]) == text
    assert name_among(text, ["x\ny", f"{text}/a"]) == text
    assert name_among(text, ["x\ny"]) == "x\ny"


@pytest.mark.parametrize(
    "text", ["$'x", "$'model.pt'", r"$'a\qb'", r"$'a\x41'", "$''", r"$'\U00110000'", "$'a'b'", ""]
)
def test_quotes_that_no_list_shows_are_a_name(text: str) -> None:
    assert not is_quoted(text)
    assert name_among(text, ["model.pt", "a"]) == text
