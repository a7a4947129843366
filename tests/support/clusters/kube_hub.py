"""A hub and the pool's service beside a cluster, as processes; notebooks of fake nodes answer from here."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx
from clusters.cluster import POOL_LABEL, Cluster
from clusters.control_plane import Daemon
from patience import PATIENCE_S
from servers.ports import free_ports

from springtide.hub_extension.local_hub.state_dir import LOOPBACK
from springtide.scheduler.client import Client

T = TypeVar("T")

START_TIMEOUT_S = 150.0
SERVICE_TOKEN = "the-token-of-the-service"
TESTS_TOKEN = "the-token-of-the-tests"
ENVIRONMENT = "springtide.io/environment"
GROUPS = {"vision": ["susan", "joe"], "speech": ["jemma", "susan"]}
PROJECTS = [{"name": "vision", "quota": 2, "build_quota": 2}, {"name": "speech", "build_quota": 0}]

HUB = """
import json, os, sys
from springtide.hub_extension import configure

c = get_config()  # noqa: F821
told = json.loads(os.environ["KUBE_HUB"])
c.JupyterHub.bind_url = told["url"]
c.JupyterHub.hub_bind_url = told["hub_url"]
c.JupyterHub.db_url = f"sqlite:///{told['state']}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{told['state']}/cookie-secret"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.allow_named_servers = True
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 100, "slow_stop_timeout": 1}
c.ConfigurableHTTPProxy.api_url = told["proxy_url"]
c.ConfigurableHTTPProxy.pid_file = f"{told['state']}/proxy.pid"
c.ConfigurableHTTPProxy.command = [sys.executable, "-m", "springtide.hub_extension.local_hub.proxy"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = {name for names in told["groups"].values() for name in names}
c.JupyterHub.load_groups = {name: {"users": users} for name, users in told["groups"].items()}
c.JupyterHub.services = [
    {"name": "springtide", "url": told["service_url"], "api_token": told["service_token"]},
    {"name": "tests", "api_token": told["tests_token"]},
]
scopes = ["admin:users", "servers", "read:users", "read:groups"]
c.JupyterHub.load_roles = [{"name": "tests", "services": ["tests"], "scopes": scopes}]
c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.Spawner.poll_interval = 1
c.Spawner.poll_jitter = 0
c.Spawner.start_timeout = c.Spawner.http_timeout = 180
c.KubeSpawner.namespace = told["namespace"]
c.KubeSpawner.image = "lab/notebook:1"
c.KubeSpawner.cmd = ["jupyterhub-singleuser"]
c.KubeSpawner.get_pod_url = lambda spawner, pod: told["notebook_url"]
c.KubeSpawner.storage_pvc_ensure = True
c.KubeSpawner.storage_capacity = "1Gi"
exec(told["config"])
configure(c)
c.KubeBuildSpawner.build_nodes = told["build_nodes"]
"""


def until(what: str, condition: Callable[[], T], *, seconds: float = 180) -> T:
    """Wait until the condition returns a true value; return that value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} seconds in vain for {what}"
        threading.Event().wait(0.2)
    return value


class KubeHub:
    """A hub whose notebooks are pods of ``namespace``, and the pool's service as a separate process.

    Both use the cluster by ``kubeconfig``, if it is given, else by the one of ``cluster``; ``settings`` are those
    of the service, ``options`` those of `KubernetesSettings`.
    """

    def __init__(
        self,
        directory: Path,
        cluster: Cluster,
        namespace: str,
        config: str = "",
        kubeconfig: Path | None = None,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.cluster, self.namespace, self.directory = cluster, namespace, directory
        hub, proxy, public, service = free_ports(4)
        self.url = f"http://{LOOPBACK}:{public}"
        self._service_port = service
        self._hub_api = f"http://{LOOPBACK}:{hub}/hub/api"
        self._told = {
            "url": self.url,
            "hub_url": f"http://{LOOPBACK}:{hub}",
            "proxy_url": f"http://{LOOPBACK}:{proxy}",
            "service_url": f"http://{LOOPBACK}:{service}",
            "service_token": SERVICE_TOKEN,
            "tests_token": TESTS_TOKEN,
            "state": str(directory),
            "groups": GROUPS,
            "namespace": namespace,
            "build_nodes": {ENVIRONMENT: "build", POOL_LABEL: namespace},
            "config": config,
        }
        headers = {"Authorization": f"token {TESTS_TOKEN}"}
        self.api = httpx.Client(base_url=self._hub_api, headers=headers, timeout=PATIENCE_S, verify=False)
        self._env = {**cluster.env, "KUBECONFIG": str(kubeconfig or cluster.kubeconfig)}
        self._settings = settings
        self._options = options or {}
        self._processes: dict[str, Daemon] = {}
        self._starting = ThreadPoolExecutor(8)

    # ---------- processes

    def start(self, notebook_url: str) -> None:
        """Start hub and service; when this returns, users can start notebooks."""
        self._told["notebook_url"] = notebook_url
        self.start_again()

    def start_again(self) -> None:
        """Start those of hub and service that do not run."""
        if not self._runs("service"):
            self.begin_service()
        if not self._runs("hub"):
            self._begin_hub()
        self.until_service_answers()
        self._until_it_answers("hub", f"{self._hub_api}/")
        self._until_it_answers("hub", f"{self.url}/hub/api/")

    def _runs(self, name: str) -> bool:
        return name in self._processes and self._processes[name].runs()

    def _begin_hub(self) -> None:
        config = self.directory / "jupyterhub_config.py"
        config.write_text(HUB)
        env = {**self._env, "KUBE_HUB": json.dumps(self._told)}
        self._run("hub", ["-m", "jupyterhub", "-f", str(config)], env)

    def until_service_answers(self) -> None:
        """Wait until the service answers."""
        self._until_it_answers("service", f"{self.service_url}/api/v1/health")

    def begin_service(self) -> Daemon:
        """Start a service, which may have to wait for another one."""
        state = self.directory / "state"
        given: dict[str, Any] = {
            "state_dir": str(state),
            "port": self._service_port,
            "executor": "kubernetes",
            "images": ["lab/notebook:1", "lab/*"],
            "projects": PROJECTS,
            "kubernetes": {
                "namespace": self.namespace,
                "jobs_host_path": str(state),
                "node_selector": {POOL_LABEL: self.namespace},
                **self._options,
            },
            **self._settings,
        }
        env = {
            **self._env,
            "JUPYTERHUB_API_TOKEN": SERVICE_TOKEN,
            "JUPYTERHUB_CLIENT_ID": "service-springtide",
            "JUPYTERHUB_API_URL": self._hub_api,
            "JUPYTERHUB_SERVICE_PREFIX": "/services/springtide/",
            "SPRINGTIDE_CONFIG": json.dumps(given),
        }
        return self._run("service", ["-m", "springtide.hub_extension"], env)

    def process(self, name: str) -> Daemon:
        """Return the process of the hub or the service."""
        return self._processes[name]

    @property
    def service_url(self) -> str:
        return f"http://{LOOPBACK}:{self._service_port}/services/springtide"

    def stop(self, name: str) -> None:
        """End the hub or the service."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.signal(signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            until(f"the end of the {name}", lambda: not process.runs(), seconds=PATIENCE_S)
        process.kill()

    def close(self) -> None:
        """End all processes."""
        for name in list(self._processes):
            self.stop(name)
        self._starting.shutdown()
        self.api.close()
        self.pool.close()

    def log(self, name: str) -> str:
        """Return the log of the hub or the service."""
        return (self.directory / f"{name}.log").read_text()

    def _run(self, name: str, arguments: list[str], env: Mapping[str, str]) -> Daemon:
        process = Daemon([sys.executable, *arguments], self.directory / f"{name}.log", env)
        process.start()
        self._processes[name] = process
        return process

    def _until_it_answers(self, name: str, url: str) -> None:
        def answers() -> bool:
            assert self._processes[name].runs(), self.log(name)[-4000:]
            with contextlib.suppress(httpx.HTTPError):
                return self.api.get(url).status_code == 200
            return False

        until(f"the {name}", answers, seconds=START_TIMEOUT_S)

    # ---------- the service's lease

    def holder(self) -> str:
        """Return which service is at work."""
        return str(self.cluster.request("GET", self._lease)["spec"]["holderIdentity"])

    def hold(self, holder: str) -> None:
        """Let another holder have the lease; none, if empty."""
        self.cluster.request("PATCH", self._lease, {"spec": {"holderIdentity": holder}})

    @property
    def _lease(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/springtide-springtide"

    # ---------- users and their notebooks

    def start_notebook(
        self, user: str, options: Mapping[str, Any] | None = None, server: str = ""
    ) -> httpx.Response:
        """Start a notebook through the REST API."""
        return self.api.post(_path(user, server), json=None if options is None else dict(options))

    def begin_notebook(self, user: str, options: Mapping[str, Any]) -> Future[httpx.Response]:
        """Start a notebook without waiting for the result."""
        begun = self._starting.submit(self.start_notebook, user, options)
        until(f"{user}'s start", lambda: begun.done() or (self.server(user) or {}).get("pending"))
        return begun

    @contextlib.contextmanager
    def browser(self, user: str) -> Iterator[httpx.Client]:
        """Yield a browser in which a user has logged in."""
        with httpx.Client(base_url=self.url, follow_redirects=True, timeout=PATIENCE_S, verify=False) as browser:
            page = browser.get("/hub/login")
            form = {"username": user, "password": "any", "_xsrf": page.cookies["_xsrf"]}
            browser.post("/hub/login", data=form).raise_for_status()
            yield browser

    def stop_notebook(self, user: str, server: str = "") -> None:
        """Stop a notebook, and wait for its end."""
        self.api.request("DELETE", _path(user, server))
        until(f"the end of {user}'s notebook", lambda: self.server(user, server) is None)

    def server(self, user: str, server: str = "") -> dict[str, Any] | None:
        """Return the hub's model of a running or starting server."""
        servers: dict[str, Any] = self.api.get(f"/users/{user}").json()["servers"]
        return servers.get(server)

    def ready(self, user: str, server: str = "") -> dict[str, Any]:
        """Wait until the server is ready; return its pod."""
        until(f"{user}'s notebook", lambda: (self.server(user, server) or {}).get("ready"))
        return self.pod(user, server)

    def pods(self) -> list[dict[str, Any]]:
        """Return all pods of notebooks."""
        return self.cluster.items(
            f"/api/v1/namespaces/{self.namespace}/pods", labelSelector="component=singleuser-server"
        )

    def pod(self, user: str, server: str = "") -> dict[str, Any]:
        """Return the pod of a notebook."""
        found = until(f"{user}'s pod", lambda: [each for each in self.pods() if _owner(each) == (user, server)])
        return found[0]

    def news_until(self, user: str, wanted: str) -> str:
        """Return the text of the pending page when it first contains ``wanted``."""
        shown = []
        with self.api.stream("GET", f"{_path(user, '')}/progress", timeout=PATIENCE_S) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    shown.append(str(json.loads(line.removeprefix("data: ")).get("message", "")))
                    if wanted in shown[-1]:
                        return shown[-1]
        raise AssertionError(f"{user} was never shown {wanted!r} but {shown}; hub:\n{self.log('hub')[-4000:]}")

    def held(self) -> dict[tuple[str, str], int]:
        """Return the number of build GPUs held, by user and name of the notebook."""
        found: dict[tuple[str, str], int] = {}
        for node in self.pool.pool().nodes:
            for cell in node.gpus:
                if cell.holder is not None and cell.holder.kind == "workspace":
                    who = (cell.holder.user, cell.holder.name)
                    found[who] = found.get(who, 0) + 1
        return found

    @cached_property
    def pool(self) -> Client:
        """Client of the pool with the token of the service."""
        return Client(self.service_url, SERVICE_TOKEN)


def _path(user: str, server: str) -> str:
    return f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"


def _owner(pod: Mapping[str, Any]) -> tuple[str, str]:
    told = pod["metadata"]["annotations"]
    return told["hub.jupyter.org/username"], told.get("hub.jupyter.org/servername", "")


class _Notebook(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"version": "6"}')

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def notebooks() -> Iterator[str]:
    """Serve the answers of notebook servers for the pods on fake nodes, which run no programs."""
    server = ThreadingHTTPServer((LOOPBACK, 0), _Notebook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
