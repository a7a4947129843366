"""The log of a job as people read it: progress bars as one line, no dangerous characters, marks between attempts.

`widgets/visuals/base/words.js` does the same for pages.
"""

from __future__ import annotations

import re
import unicodedata

from springtide.scheduler.wire import Attempt, Job
from springtide.scheduler.wording import clock

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
"""The escape sequences of a terminal."""
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
RESET = "\x1b[0m"
REWRITE = "\r\x1b[K"
"""What clears the current line of a terminal."""
LONGEST = 1 << 16
"""Number of characters after which a line is printed although it has not ended."""
BLOCK = 1 << 13
"""Number of characters of lines that are folded together unless one of them needs more than that."""

_HOME = re.compile(r"\x1b\[[01]?G")
_UP = re.compile(r"\x1b\[(\d{0,2})[AF]")
_RESETS = re.compile(r"\x1b\[0*m")
_CUT = re.compile(r"\x1b[^a-zA-Z]{0,32}$")


class LogText:
    """Turns the pieces of a log into text to print, one after the other.

    With ``colours`` those of the log stay. With a ``width``, that of a terminal in characters, a line that has not
    ended is printed too, and rewritten in its place; otherwise lines are printed when they have ended.
    """

    def __init__(self, *, colours: bool = False, width: int | None = None) -> None:
        self._colours = colours
        self._width = width
        self._rest = ""
        self._shown = ""
        self._coloured = False

    def feed(self, piece: str) -> str:
        """Return the text to print for the next piece of the log."""
        text = self._rest + piece
        end = text.rfind("\n") + 1
        printed, rest = self._ended(text[:end]) if end else "", text[end:]
        if len(rest) > LONGEST and "\r" not in rest:
            printed, rest = printed + self._ended(rest), ""
        self._rest = rest[_overwritten(rest) :]
        return printed + self._unfinished()

    def finish(self) -> str:
        """Return the text to print at the end, or before other text: unfinished lines, on their own lines."""
        line = f"{self._ended(self._rest)}\n" if self._rest else ""
        reset = RESET if self._coloured else ""
        self._rest, self._coloured = "", False
        return reset + line if line and not reset else line + reset

    def _ended(self, lines: str) -> str:
        """Return ended lines, instead of the beginning of the first that may be shown."""
        rewrite, self._shown = REWRITE if self._shown else "", ""
        text = folded_lines(lines, colours=self._colours)
        if self._colours and (last := text.rfind("\x1b")) >= 0:
            self._coloured = not _RESETS.match(text, last)
        return rewrite + text

    def _unfinished(self) -> str:
        if self._width is None:
            return ""
        text = _CUT.sub("", self._rest)
        shown = folded(text, colours=False).expandtabs(8)[: max(1, self._width - 1)]
        if shown == self._shown:
            return ""
        rewrite = REWRITE if self._shown else ""
        self._shown = shown
        return rewrite + shown


def _overwritten(line: str) -> int:
    """Return how many characters of a line later ones have overwritten."""
    return line.rstrip("\r").rfind("\r") + 1


def folded(line: str, *, colours: bool) -> str:
    """Return one line as a terminal shows it in the end, without control, direction and escape characters."""
    if line.isprintable():
        return line
    moved = _HOME.sub("\r", line)
    written = moved.rstrip("\r")[_overwritten(moved) :]
    parts, at = [], 0
    for escape in ESCAPES.finditer(written):
        parts.append(_visible(written[at : escape.start()]))
        if colours and COLOUR.fullmatch(escape[0]):
            parts.append(escape[0])
        at = escape.end()
    parts.append(_visible(written[at:]))
    return "".join(parts)


def folded_lines(lines: str, *, colours: bool) -> str:
    """Return lines as `folded` returns each of them, many at once if they have nothing but text and colours."""
    parts, at = [], 0
    while at < len(lines):
        end = lines.find("\n", at + BLOCK) + 1 or len(lines)
        block, at = lines[at:end], end
        bare = COLOUR.sub("", block)
        if bare.replace("\n", "").replace("\t", "").isprintable():
            parts.append(block if colours else bare)
        else:
            parts.append("\n".join(folded(line, colours=colours) for line in block.split("\n")))
    return "".join(parts)


class _Visible(dict[int, int | None]):
    """The characters of texts by themselves, and None for those that are left out; filled as they are met."""

    def __missing__(self, code: int) -> int | None:
        char = chr(code)
        self[code] = code if char == "\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"} else None
        return self[code]


_VISIBLE = _Visible()


def _visible(text: str) -> str:
    return text if text.isprintable() else text.translate(_VISIBLE)


def whole_text(text: str, *, colours: bool) -> str:
    """Return a whole log as a terminal shows it: bars within bars are a line each.

    The last line may lack its end.
    """
    return folded_lines("\n".join(_rows(_CUT.sub("", text))), colours=colours)


def _rows(text: str) -> list[str]:
    """Return the lines after all moves up; text written over one follows it after a carriage return."""
    lines = text.split("\n")
    if not _UP.search(text):
        return lines
    rows, row, is_fresh = [""], 0, True
    for number, line in enumerate(lines):
        if number:
            row, is_fresh = row + 1, True
        if row == len(rows):
            rows.append("")
        written, *moves = _UP.split(line)
        for up, piece in zip(["0", *moves[::2]], [written, *moves[1::2]], strict=True):
            row = max(0, row - int(up or 1))
            rows[row] += "\r" + piece if is_fresh and rows[row] and piece else piece
            if shown := ESCAPES.sub("", piece):
                is_fresh = shown.endswith("\r")
    return rows


def attempt_mark(job: Job, number: int, now: float) -> str:
    """Return the line between two attempts: ``── attempt 2 of train-3, started again 14:02 on node-1 ──``.

    It does not say that the program resumes, which only the program knows; ``from the beginning`` that the pool
    knew no checkpoint.
    """
    name = folded(" ".join(job.name.split()), colours=False)
    attempt = next((each for each in job.attempts if each.number == number), None)
    if attempt is None or attempt.started is None:
        return f"── attempt {number} of {name} ──"
    how = f"started again{' with a checkpoint' if attempt.had_checkpoint else ''}"
    how = f"{how} from the beginning" if attempt.from_start else how
    return f"── attempt {number} of {name}, {how} {clock(attempt.started, now)}{_where(attempt)} ──"


def _where(attempt: Attempt) -> str:
    nodes = list(dict.fromkeys(gpu.node for gpu in attempt.gpus))
    if not nodes:
        return ""
    return f" on {nodes[0]}" if len(nodes) == 1 else f" on {len(nodes)} nodes"
