"""A log for terminals: progress bars are one line, colours stay if wanted, nothing commands the terminal."""

from __future__ import annotations

import random
import time

import pytest

from springtide.scheduler.client.log_text import BLOCK, LogText, attempt_mark, folded, whole_text
from springtide.scheduler.wire import Attempt, GpuRef, Job

BAR = "start\n\r  0%|          |\r 50%|#####     |\r100%|##########|\nend\n"


def printed(text: str, size: int, **options: bool) -> str:
    """Return what is printed for a text that comes in pieces of this size."""
    log = LogText(**options)
    return "".join(log.feed(text[at : at + size]) for at in range(0, len(text), size)) + log.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_progress_bar_is_one_line_however_its_log_is_cut(size: int) -> None:
    assert printed(BAR, size) == "start\n100%|##########|\nend\n"
    assert printed("a\r\nb\r\n", size) == "a\nb\n"
    assert printed("50%\r100%", size) == "100%\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_colours_stay_where_they_are_wanted_and_do_not_run_on(size: int) -> None:
    text = "\x1b[31mred\x1b[0m and \x1b[1;32mgreen\n"
    assert printed(text, size) == "red and green\n"
    assert printed(text, size, colours=True) == "\x1b[31mred\x1b[0m and \x1b[1;32mgreen\n\x1b[0m"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "attack",
    [
        "\x1b]0;title\x07",
        "\x1b]52;c;aGFjaw==\x1b\\",
        "\x1b[2J\x1b[H",
        "\x1b[5A",
        "\x1bc",
        "\x1bP+q544e\x1b\\",
        "\x9b",
        "\x07\x08",
        "\u202e",
    ],
)
def test_nothing_in_a_log_commands_the_terminal(attack: str, size: int) -> None:
    assert printed(f"a{attack}b\n", size, colours=True) == "ab\n"


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows after a text with carriage returns and erased lines."""
    lines, place = [""], 0
    for part in text.replace("\x1b[K", "\x00").splitlines(keepends=True) if text else []:
        for char in part:
            if char == "\n":
                lines.append("")
                place = 0
            elif char == "\r":
                place = 0
            elif char == "\x00":
                lines[-1] = lines[-1][:place]
            else:
                lines[-1] = lines[-1][:place] + char + lines[-1][place + 1 :]
                place += 1
    return lines


def test_a_followed_bar_is_rewritten_in_its_place() -> None:
    log = LogText(width=80)
    first = log.feed("start\n\r  0%")
    assert screen(first) == ["start", "  0%"]
    second = first + log.feed("\r 50% long") + log.feed("\r100%")
    assert screen(second) == ["start", "100%"]
    assert screen(second + log.feed("\r100%\nend\n")) == ["start", "100%", "end", ""]


def test_a_followed_line_longer_than_the_terminal_is_cut_until_it_ends() -> None:
    log = LogText(width=11)
    assert log.feed("x" * 30) == "x" * 10
    assert log.feed("\n").endswith("x" * 30 + "\n")


def test_a_line_without_end_is_printed_in_the_end() -> None:
    log = LogText()
    shown = sum(len(log.feed("x" * 50_000)) for _ in range(21))
    assert shown + len(log.finish()) == 21 * 50_000 + 1


def test_a_bar_of_any_length_takes_no_memory() -> None:
    log = LogText()
    for number in range(1000):
        log.feed(f"\r{number}" + " " * 100)
    assert len(log._rest) < 200


def test_a_whole_log_keeps_its_lines() -> None:
    assert whole_text("a\n50%\r100%\nend", colours=False) == "a\n100%\nend"
    assert folded("\x1b[1G 9%\x1b[1G10%", colours=False) == "10%"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("outer 0%\n\rinner 10%\x1b[A\n\rinner 90%\x1b[A\router 1%\n\n", "outer 1%\ninner 90%\n"),
        ("a\nb\r\x1b[2K\x1b[1A\x1b[2Kc\x1b[99Ad\n\n\n", "cd\n\n\n"),
        ("done\x1b[3", "done"),
    ],
)
def test_a_whole_log_is_what_a_terminal_shows_bars_within_bars_too(given: str, shown: str) -> None:
    assert whole_text(given, colours=False) == shown


def attempt(number: int, **more: object) -> Attempt:
    fields = {"state": "running", "workers": 1, "created": 0.0, "gpus": [], **more}
    return Attempt(number=number, **fields)  # type: ignore[arg-type]


def job(*attempts: Attempt) -> Job:
    return Job(
        id="1", name="train-3\x1b[2J", kind="command", user="s", project="s", state="running", submitted=0.0,
        argv=["x"], attempts=list(attempts),
    )  # fmt: skip


def test_the_mark_between_attempts_says_when_and_where_the_next_began() -> None:
    now = time.time()
    gpu = GpuRef(node="gpu-node-1", index=0, uuid="GPU-1", label="gpu-node-1 0")
    clock = time.strftime("%H:%M", time.localtime(now))
    how = f"started again with a checkpoint {clock}"
    saved = job(attempt(1, saved=5.0), attempt(2, started=now, gpus=[gpu], had_checkpoint=True))
    assert attempt_mark(saved, 2, now) == f"── attempt 2 of train-3, {how} on gpu-node-1 ──"
    again = job(attempt(1, saved=5.0), attempt(2, started=now))
    assert attempt_mark(again, 2, now) == f"── attempt 2 of train-3, started again {clock} ──"
    anew = job(attempt(1), attempt(2, started=now, from_start=True))
    assert attempt_mark(anew, 2, now) == f"── attempt 2 of train-3, started again from the beginning {clock} ──"
    assert attempt_mark(again, 7, now) == "── attempt 7 of train-3 ──"


def test_tabs_stay_tabs() -> None:
    assert LogText().feed("step\t1\tloss\n") == "step\t1\tloss\n"


PARTS = (
    "a ",
    "é",
    "\t",
    "\r",
    "\x1b[0m",
    "\x1b[1;31m",
    "\x1b[K",
    "\x1b[1G",
    "\x1b]0;t\x07",
    "\x1b",
    "\u202e",
    "\xa0",
)
"""What lines are made of; the first ones are shown as they are."""


@pytest.mark.parametrize("rare", [0.0, 0.001, 0.5])
@pytest.mark.parametrize("colours", [False, True])
def test_lines_that_come_together_are_shown_as_each_alone(rare: float, colours: bool) -> None:
    dice = random.Random(7)
    lines = [
        "".join(dice.choices(PARTS if dice.random() < rare else PARTS[:3], k=dice.randrange(12)))
        for _ in range(4_000)
    ]
    alone = "".join(f"{folded(line, colours=colours)}\n" for line in lines)
    assert len(alone) > 2 * BLOCK
    whole = "".join(f"{line}\n" for line in lines)
    assert LogText(colours=colours).feed(whole) == alone
    assert whole_text(whole, colours=colours) == alone


def test_a_long_log_of_short_coloured_lines_takes_much_less_time_than_its_lines_one_by_one() -> None:
    lines = [f"\x1b[32mINFO\x1b[0m step\t{step}\n" for step in range(50_000)]
    begun = time.process_time()
    one_by_one = "".join(folded(line[:-1], colours=True) + "\n" for line in lines)
    between = time.process_time()
    assert LogText(colours=True).feed("".join(lines)) == one_by_one
    assert time.process_time() - between < (between - begun) / 2
