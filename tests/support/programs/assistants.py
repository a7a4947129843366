"""`springtide mcp` as an AI assistant starts and uses it: by the client of the MCP SDK."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp
from patience import PATIENCE_S
from programs.terminal import OURS, is_well_known

from springtide.hub_extension.commands.agents.server import MAX_ANSWER


@dataclass(frozen=True)
class Assistant:
    """The client of an assistant; each answer is kept."""

    client: mcp.Client
    said: list[str]

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that has an answer; return it."""
        done = await self.try_to(tool, arguments)
        assert not done.is_error, self.said[-1]
        assert json.loads(self.said[-1]) == done.structured_content
        return done.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that has none; return what it says."""
        done = await self.try_to(tool, arguments)
        assert done.is_error, self.said[-1]
        assert done.structured_content is None
        assert "Traceback" not in self.said[-1]
        return self.said[-1]

    async def try_to(self, tool: str, arguments: Mapping[str, Any]) -> mcp.types.CallToolResult:
        """Call a tool; its answer, or what it says instead, is the last of ``said``."""
        done = await self.client.call_tool(tool, dict(arguments))
        [content] = done.content
        assert isinstance(content, mcp.types.TextContent)
        assert len(content.text.encode()) <= MAX_ANSWER
        self.said.append(content.text)
        return done

    async def until(self, job: str, state: str) -> dict[str, Any]:
        """Wait for a state of a job, as an assistant may."""
        for _ in range(int(PATIENCE_S / 0.2)):
            found = await self.call("show_job", job=job)
            if found["job"]["state"] == state:
                return found
            await asyncio.sleep(0.2)
        raise AssertionError(found)


@asynccontextmanager
async def assistant(
    url: str, directory: Path, *words: str, user: str = "susan", mode: Any = "auto", **variables: str
) -> AsyncIterator[Assistant]:
    """Start the server as an assistant does, in a directory of a person's, with the person's token."""
    kept = {n: value for n, value in os.environ.items() if not (n.startswith(OURS) or is_well_known(n))}
    kept |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    kept |= {"SPRINGTIDE_URL": url, "JUPYTERHUB_API_TOKEN": user, **variables}
    command = ["-m", "springtide", "mcp", *words]
    server = mcp.StdioServerParameters(command=sys.executable, args=command, env=kept, cwd=directory)
    async with mcp.Client(server, read_timeout_seconds=PATIENCE_S, mode=mode) as client:
        yield Assistant(client, [])
