"""The real MLflow, as a server."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import httpx
from pinned_environments import TRACKING
from servers.ports import free_port

PATIENCE_S = 240.0


class MlflowServer:
    """MLflow's own server, which can be stopped and started again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        python = str(TRACKING.interpreter())
        command = [python, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"]
        store = ["--backend-store-uri", f"sqlite:///{self._path / 'mlflow.db'}", "--port", str(self._port)]
        with (self._path / "mlflow.log").open("ab") as log:
            self._process = subprocess.Popen([*command, *store], cwd=self._path, stdout=log, stderr=log)
        async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(trust_env=False, verify=False) as client:
            while True:
                try:
                    if (await client.get(f"{self.url}/health")).status_code == 200:
                        return
                except httpx.HTTPError:
                    assert self._process.poll() is None, (self._path / "mlflow.log").read_text()
                await asyncio.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None

    def ask(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"params": fields} if method == "GET" else {"json": fields}
        address = f"{self.url}/api/2.0/mlflow/{path}"
        answer = httpx.request(
            method, address, trust_env=False, timeout=PATIENCE_S, verify=False, **given
        ).raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def runs(self, project: str) -> list[dict[str, Any]]:
        found = self.ask("POST", "experiments/search", filter=f"name = '{project}'", max_results=1)
        ids = [each["experiment_id"] for each in found.get("experiments", ())]
        return list(self.ask("POST", "runs/search", experiment_ids=ids).get("runs", ())) if ids else []

    def values(self, run: dict[str, Any], name: str) -> list[tuple[int, float]]:
        asked = {"run_id": run["info"]["run_id"], "metric_key": name}
        found = self.ask("GET", "metrics/get-history", **asked).get("metrics", ())
        return [(each["step"], each["value"]) for each in sorted(found, key=lambda each: each["timestamp"])]
