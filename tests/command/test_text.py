"""Text of other people's jobs on a terminal."""

from __future__ import annotations

import pytest

from springtide.hub_extension.commands.text import one_line, printable, table


@pytest.mark.parametrize(
    "attack",
    [
        "\x1b[2J\x1b[31mred",
        "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
        "\x9b31m",
        "a\u202egpj.exe",
        "\x07\x08\x0b\x0c\x7f\x00",
        "a\u2028b\u200fc",
    ],
    ids=["ansi", "link", "c1", "bidi", "control", "separators"],
)
def test_nothing_that_a_terminal_obeys_gets_through(attack: str) -> None:
    shown = printable(attack)
    assert all(c.isprintable() for c in shown)


def test_lines_and_letters_stay() -> None:
    assert printable("Größe\n\tπ = 3\r\n日本 🙂\n") == "Größe\n\tπ = 3\n日本 🙂\n"


def test_a_progress_bar_that_rewrites_its_line_becomes_lines() -> None:
    assert printable("10%\r20%\r\ndone\n") == "10%\n20%\ndone\n"


def test_a_name_with_line_breaks_stays_on_its_line() -> None:
    assert one_line("a\nJOB b\r\tc") == "a JOB b c"


def test_a_table_has_numbers_to_the_right_and_no_loose_ends() -> None:
    assert table(("NAME", "GPUS", "WHY"), [("a", 4, ""), ("longer", 16, "because")]) == [
        "NAME    GPUS  WHY",
        "a          4",
        "longer    16  because",
    ]


def test_a_table_without_rows_is_no_table() -> None:
    assert table(("NAME",), []) == []
