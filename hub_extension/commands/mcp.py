"""``springtide mcp``."""

from __future__ import annotations

import asyncio
import sys

import click

from springtide.hub_extension.commands.agents.server import serve
from springtide.hub_extension.commands.agents.tools import TOOLS
from springtide.hub_extension.commands.text import say

STARTED_BY_HAND = (
    "This is an MCP server: an AI assistant starts it, and talks to it on standard input. Name it in the "
    "assistant's "
    'settings, with the command "springtide" and the argument "mcp". Ctrl-C ends it.'
)


@click.command()
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing: no submit, pause, cancel.")
def mcp(*, read_only: bool) -> None:
    """Let an AI assistant use the pool in your name: an MCP server on standard input and output.

    The assistant starts it, and does by its tools what you may do by the other commands: list, explain and follow
    jobs, read logs and metrics, forecast, submit, pause, resume and cancel. A submission is a dry run first.
    """
    if sys.stdin.isatty():
        say(STARTED_BY_HAND)
    asyncio.run(serve([tool for tool in TOOLS if tool.reads or not read_only]))
