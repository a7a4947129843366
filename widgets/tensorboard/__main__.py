"""``python -m springtide.widgets.tensorboard JOB…``: TensorBoard of these jobs, until the standard input ends.

Each line of the standard output is a `Said` as JSON. The notebook server starts it and passes requests on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Final

import msgspec

from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.scheduler.scratch import ScratchFolder
from springtide.scheduler.user_environments import how_to_install, user_environments
from springtide.scheduler.wording import listed
from springtide.widgets.tensorboard.said import PROGRAM, Said

PACKAGE: Final = "tensorboard"
PREFIX: Final = "springtide-tensorboard-"
"""Beginning of the names of the folders with copies."""
LONGEST: Final = 60
"""Maximum length of the path of their place, in characters: the kernel takes no long path of a socket."""
REFRESH_S: Final = 5


def main(jobs: Sequence[str]) -> None:
    """Run TensorBoard of these jobs."""
    folders: list[ScratchFolder] = []
    threading.Thread(target=_end_with_input, args=(folders,), daemon=True).start()
    if find_spec(PACKAGE) is None:
        other = _other_python()
        if other is not None:
            os.execv(other, [str(other), "-P", "-m", PROGRAM, *jobs])  # noqa: S606 - its own Python
        how = how_to_install(PACKAGE)
        _say(Said("failed", f"TensorBoard is not installed for this notebook server. To install it: {how}"))
        return
    there = gettempdir()
    folder = ScratchFolder(Path(there if len(there) <= LONGEST else "/tmp"), PREFIX)  # noqa: S108 - its own folder
    folders.append(folder)
    try:
        _run(jobs, folder.path)
    except (PoolError, Unreachable, OSError) as error:
        _say(Said("failed", str(error)))
    except Exception as error:  # noqa: BLE001 - of another program; its user has to know
        _say(Said("failed", f"TensorBoard did not start: {type(error).__name__}: {error}"))
    finally:
        folder.remove()


def _run(jobs: Sequence[str], folder: Path) -> None:
    from springtide.widgets.tensorboard.copies import JobLogs  # noqa: PLC0415 - reads TensorBoard
    from springtide.widgets.tensorboard.socket_server import serve  # noqa: PLC0415 - as above

    copies, place = folder / "logs", folder / "socket"
    copies.mkdir()
    with Client() as client:
        logs = [JobLogs(client, client.job(job), copies) for job in jobs]
        title = listed([each.name for each in logs])
        _say(Said("reading", f"Reading the metrics and event files of {title}…"))
        for each in logs:
            each.refresh()
        while all(each.nothing for each in logs):
            words = " ".join(each.nothing for each in logs)
            if all(each.settled for each in logs):
                _say(Said("failed", words))
                return
            _say(Said("reading", f"{words} TensorBoard opens here as soon as there is something."))
            time.sleep(REFRESH_S)
            for each in logs:
                each.refresh()
        _say(Said("reading", f"Starting TensorBoard of {title}…"))
        serve(copies, place, title=title, reload_s=REFRESH_S)
        notes = [words for each in logs for words in (each.note, each.nothing) if words]
        _say(Said("ready", socket=str(place), notes=notes))
        while True:
            time.sleep(REFRESH_S)
            for each in logs:
                with suppress(PoolError, Unreachable):  # copied files stay; the next attempt may succeed
                    each.refresh()


def _say(said: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_input(folders: list[ScratchFolder]) -> None:
    """End this process, whatever it does, once the notebook server has closed the input or has ended."""
    while sys.stdin.buffer.read(4096):
        continue
    for folder in folders:
        folder.remove()
    os._exit(0)


def _other_python() -> Path | None:
    """Return the Python of an environment of the user's own that has TensorBoard, None if there is none."""
    own = user_environments(os.environ, lambda _line: None).all()
    for each in own:
        has_it = any(each.path.glob(f"lib/python*/site-packages/{PACKAGE}/__init__.py"))
        if has_it and not each.problem and each.path.resolve() != Path(sys.prefix).resolve():
            return each.interpreter
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
