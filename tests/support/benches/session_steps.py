"""Steps of tests with sessions, on any executor."""

from __future__ import annotations

import asyncio

from benches.executor_bench import Bench

from springtide.scheduler.executors.base import AttemptSpec
from springtide.scheduler.executors.session import Session, SessionSpec, Stream
from springtide.scheduler.wire.sessions import SessionEnd, TerminalSize

SIZE = TerminalSize(columns=80, rows=24)


async def opened(
    bench: Bench, spec: AttemptSpec, *argv: str, rank: int = 0, size: TerminalSize | None = None
) -> Session:
    """Open a session in a worker of an attempt."""
    return await bench.executor.open_session(spec.key, SessionSpec(rank, argv, terminal=size))


async def output(session: Session, patience: float) -> tuple[str, str, SessionEnd | None]:
    """Read a session to its end; return its output, its errors, and the end."""
    found = {Stream.OUTPUT: b"", Stream.ERRORS: b""}
    async with asyncio.timeout(patience):
        while (piece := await session.read()) is not None:
            found[piece[0]] += piece[1]
    await session.close()
    return found[Stream.OUTPUT].decode(), found[Stream.ERRORS].decode(), session.end


async def until(session: Session, text: str, patience: float) -> str:
    """Read the output until it contains a text."""
    found = ""
    async with asyncio.timeout(patience):
        while text not in found:
            piece = await session.read()
            assert piece is not None, f"{text!r} never came: {found!r} {session.end}"
            found += piece[1].decode()
    return found


async def shell(bench: Bench, spec: AttemptSpec, text: str, rank: int = 0) -> str:
    """Return the output of a command in a worker, which must succeed."""
    said, errors, end = await output(await opened(bench, spec, "sh", "-c", text, rank=rank), bench.patience)
    assert end == SessionEnd(code=0), errors
    return said


async def ended(bench: Bench, spec: AttemptSpec, pids: list[str]) -> None:
    """Wait until processes of a worker, by the pids that they know, have ended."""
    lives = " || ".join(f"test -d /proc/{pid}" for pid in pids)
    async with asyncio.timeout(bench.patience):
        while await shell(bench, spec, f"({lives}) && echo alive || echo ended") != "ended\n":
            await asyncio.sleep(0.1)
