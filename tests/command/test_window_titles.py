"""The title of a terminal in a job stays the job's, whatever the shell's prompt writes."""

from __future__ import annotations

import pytest

from springtide.hub_extension.commands.window_titles import LONGEST, WithoutTitles

PROMPT = (
    b"\x1b]0;susan@node: ~\x07\x1b[01;32msusan@node\x1b[00m:~$ ls\r\n\x1b]2;vim\x1b\\text "
    b"\x1b]8;;https://x\x07link\x1b]8;;\x07"
)
SHOWN = b"\x1b[01;32msusan@node\x1b[00m:~$ ls\r\ntext \x1b]8;;https://x\x07link\x1b]8;;\x07"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_titles_are_left_out_however_the_output_is_cut_and_all_else_stays(size: int) -> None:
    titles = WithoutTitles()
    pieces = [titles.passed(PROMPT[at : at + size]) for at in range(0, len(PROMPT), size)]
    assert b"".join(pieces) + titles.rest() == SHOWN


def test_what_only_begins_like_a_title_is_shown_in_the_end() -> None:
    titles = WithoutTitles()
    assert (titles.passed(b"a\x1b"), titles.passed(b"[0m"), titles.rest()) == (b"a", b"\x1b[0m", b"")
    assert (titles.passed(b"b\x1b]0;never"), titles.rest(), titles.rest()) == (b"b", b"\x1b]0;never", b"")
    endless = b"\x1b]0;" + b"x" * LONGEST
    assert titles.passed(endless) == endless
