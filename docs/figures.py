"""Draw the figures of the docs from simulations: which GPUs the jobs of a scenario hold, over time.

`make generate` draws them. With ``--check`` nothing is written: the exit code is 1 if one is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from springtide.scheduler.scenario import read
from springtide.scheduler.simulate import Course, load_of, simulate

ROOT = Path(__file__).parents[1]
FIGURES = {"docs/pictures/story.svg": "examples/scenarios/story.yaml"}
COLOURS = ("#1c7ed6", "#d9730d", "#0b8a64")
"""Colours of the projects, in the order of the scenario."""
LEFT, RIGHT, TOP, FOOT = 190, 24, 34, 34
WIDTH = 860
GPU_HEIGHT = 9
GAP = 16
TICK_MIN = 15
FONT = 'font-family="sans-serif" font-size="13" fill="#212529"'
SECONDS = 60


def figure(scenario: Path) -> str:
    """Return a drawing of the simulated scenario as SVG: a row for each job, as high as it has GPUs."""
    load = load_of(read(scenario))
    courses = simulate(load).courses
    colours = dict(zip((project.name for project in load.projects), COLOURS, strict=True))
    end = max(stop for course in courses for _, stop, *_ in course.spans)
    height = TOP + sum(_height(course) for course in courses) + FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        *_axis(end, height),
    ]
    top = TOP
    for course in courses:
        lines += _row(course, colours[course.job.project], top, end)
        top += _height(course)
    return "\n".join([*lines, "</svg>", ""])


def gpus_of(course: Course) -> int:
    """Return the number of GPUs of a job with all its workers."""
    return max(gpus for _, _, gpus, _ in course.spans)


def _height(course: Course) -> int:
    return gpus_of(course) * GPU_HEIGHT + GAP


def _x(seconds: float, end: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / end, 1)


def _axis(end: float, height: int) -> Iterator[str]:
    for minutes in range(0, int(end / SECONDS) + 1, TICK_MIN):
        x = _x(minutes * SECONDS, end)
        yield f'<path d="M{x} {TOP - 8}V{height - FOOT + 4}" stroke="#dee2e6"/>'
        yield f'<text x="{x}" y="{height - 12}" text-anchor="middle">{minutes} min</text>'


def _row(course: Course, colour: str, top: int, end: float) -> Iterator[str]:
    job = course.job
    thick = gpus_of(course) * GPU_HEIGHT
    middle = top + thick / 2
    words = escape(f"{job.id} of {job.project}, {gpus_of(course)} GPUs")
    yield f'<text x="12" y="{middle + 4}">{words}</text>'
    for (_, paused, *_), (resumed, *_) in zip(course.spans, course.spans[1:], strict=False):
        first, last = _x(paused, end), _x(resumed, end)
        yield f'<path d="M{first} {middle}H{last}" stroke="{colour}" stroke-width="2" stroke-dasharray="4 4"/>'
        yield f'<text x="{(first + last) / 2}" y="{middle - 6}" text-anchor="middle">paused</text>'
    for start, stop, gpus, _ in course.spans:
        x = _x(start, end)
        size = f'width="{round(_x(stop, end) - x, 1)}" height="{gpus * GPU_HEIGHT}"'
        yield f'<rect x="{x}" y="{top}" {size} rx="3" fill="{colour}"/>'


def main(arguments: Sequence[str]) -> int:
    """Write the figures, or say which are not up to date."""
    stale = 0
    for name, scenario in FIGURES.items():
        drawn, path = figure(ROOT / scenario), ROOT / name
        if path.exists() and path.read_text() == drawn:
            continue
        if "--check" in arguments:
            sys.stderr.write(f"{name} is not what {scenario} comes to. Run `make generate`.\n")
            stale = 1
        else:
            path.write_text(drawn)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
