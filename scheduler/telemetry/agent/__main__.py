"""The agent as a program: ``python -m springtide.scheduler.telemetry.agent``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from springtide.scheduler.telemetry.agent.collector import Collector
from springtide.scheduler.telemetry.agent.pod_resources import SOCKET, PodResources
from springtide.scheduler.telemetry.agent.server import TokenError, make_server, read_token

BAD_INPUT = 2


def main(arguments: list[str] | None = None) -> int:
    """Answer requests for reports until SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="springtide-agent", description="Report to the pool's service the GPUs of this node."
    )
    parser.add_argument("--ip", default="0.0.0.0", help="address to listen on")  # noqa: S104 - of a pod
    parser.add_argument("--port", type=int, default=8092, help="port to listen on")
    parser.add_argument(
        "--token-file", type=Path, required=True, help="file with the token that the service sends"
    )
    parser.add_argument("--pod-resources", type=Path, default=SOCKET, help="the kubelet's socket")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        read_token(given.token_file)
    except TokenError as error:
        parser.exit(BAD_INPUT, f"{error}\n")
    server = make_server(
        (given.ip, given.port), Collector(PodResources(given.pod_resources)).report, given.token_file
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
