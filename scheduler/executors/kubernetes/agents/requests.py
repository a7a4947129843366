"""Requests to the agents, each for the report of its node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from springtide.scheduler.telemetry.agent.access import REPORT_PATH, TokenError, read_token
from springtide.scheduler.telemetry.agent.report import MOST_BYTES, NodeReport, ReportError, decode

log = logging.getLogger(__name__)

CONCURRENT: Final = 64
"""Maximum number of agents that are asked at a time."""
TIMEOUT_S: Final = 4.0
"""Time in which an agent has to answer completely, in seconds."""


class AgentRequests:
    """Asks agents at their addresses, with the token of a file. What goes wrong is logged once for each node."""

    def __init__(self, port: int, token_file: Path) -> None:
        self._port = port
        self._token_file = token_file
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(limits=limits, timeout=TIMEOUT_S, trust_env=False)
        self._gate = asyncio.Semaphore(CONCURRENT)
        self._wrong: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, NodeReport]:
        """Return the reports of the agents at these addresses, both by node, without those that do not answer."""
        try:
            token = read_token(self._token_file)
        except TokenError as error:
            self._note("", str(error))
            return {}
        self._note("", "")
        found = await asyncio.gather(*(self._report(node, address, token) for node, address in addresses.items()))
        self._wrong = {node: why for node, why in self._wrong.items() if node in addresses or not node}
        return {node: report for node, report in zip(addresses, found, strict=True) if report is not None}

    async def _report(self, node: str, address: str, token: str) -> NodeReport | None:
        try:
            async with self._gate, asyncio.timeout(TIMEOUT_S):
                report = decode(await self._read(address, token))
        except TimeoutError:
            self._note(node, f"It does not answer within {TIMEOUT_S:g} s.")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._note(node, f"It cannot be asked: {error or type(error).__name__}")
        except ReportError as error:
            self._note(node, str(error))
        else:
            self._note(node, report.problem)
            return report
        return None

    async def _read(self, address: str, token: str) -> bytes:
        """Return what an agent answers, cut off where it is longer than any report."""
        host = f"[{address}]" if ":" in address else address
        headers = {"Authorization": f"Bearer {token}"}
        url, data = f"http://{host}:{self._port}{REPORT_PATH}", bytearray()
        async with self._client.stream("GET", url, headers=headers) as answer:
            answer.raise_for_status()
            async for piece in answer.aiter_raw():
                data += piece
                if len(data) > MOST_BYTES:
                    break
        return bytes(data)

    def _note(self, node: str, why: str) -> None:
        """Log what is wrong with the agent of a node, when it begins and when it ends."""
        if self._wrong.get(node, "") == why:
            return
        self._wrong[node] = why
        name = f"The agent of the node {node}" if node else "Agents"
        log.warning("%s: %s", name, why) if why else log.info("%s: answers again", name)
