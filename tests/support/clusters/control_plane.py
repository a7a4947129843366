"""The processes of a Kubernetes control plane on loopback: etcd, API server, controllers, scheduler, kwok."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from clusters.audit import POLICY
from clusters.certificates import write_client_certificate
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from patience import PATIENCE_S
from servers.ports import free_ports

from springtide.hub_extension.local_hub.state_dir import LOOPBACK

KWOK_CONFIG = Path(__file__).parents[2] / "cluster" / "kwok" / "kwok.yaml"
START_TIMEOUT_S = 180.0
_TAIL_CHARACTERS = 3000
_POLL_S = 0.1
NODE_GRACE_S = 12
GOGC = "400"  # more memory, less processor time: these programs share the processor with the tested code
ONE_THREAD = {"GOMAXPROCS": "1"}
"""For tests, of which none asks for much: several threads take more processor time to find work for each other."""
_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
"""End with the parent, whose process ID comes next; a parent that ended before the first word sends no signal."""
_ALL_IS_WELL = re.compile(r"I\d{4} |W\d{4} .*(Skipping API|grpc: addrConn)")


def until(holds: Callable[[], bool], what: str, *, timeout_s: float = START_TIMEOUT_S) -> None:
    """Wait until ``holds()`` is true; raise TimeoutError naming ``what`` if it stays false."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {timeout_s:.0f} s in vain until {what}")
        threading.Event().wait(_POLL_S)


def _is_stopped(pid: int) -> bool:
    """Return whether each thread of a process is in state T; the signal reaches a busy process's threads later."""
    try:
        stats = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:  # a thread ended meanwhile, so not all are stopped
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


class Daemon:
    """A process that ends with the test process, however that ends, and whose log is kept.

    The kernel ends it with the *thread* that started it, so one permanent thread starts all of them.
    """

    _starter = ThreadPoolExecutor(1, thread_name_prefix="cluster")

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._command = [*_WITH_PARENT, str(os.getpid()), *map(str, command)]
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        self._starter.submit(self._start).result()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
            )

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} was not started"
        self._process.send_signal(number)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend all threads of the process in this block."""
        self.signal(signal.SIGSTOP)
        try:
            until(lambda: _is_stopped(self.pid), f"all threads of {self.name} are stopped")
            yield
        finally:
            self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process; do nothing when it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """Return the end of the log, without routine messages of Kubernetes programs."""
        if not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not _ALL_IS_WELL.match(line))[-_TAIL_CHARACTERS:]


class ControlPlane:
    """A control plane in a directory; starts within seconds and ends at once."""

    def __init__(self, directory: Path, tools: Path, token: str, node_grace_s: int, go: Mapping[str, str]) -> None:
        etcd_port, peer_port, api_port = free_ports(3)
        self.url = f"https://{LOOPBACK}:{api_port}"
        self.ca = directory / "certificates" / "apiserver.crt"
        self.kubeconfig = directory / "admin.kubeconfig"
        self._directory = directory
        self._tools = tools
        self._node_grace_s = node_grace_s
        self._token = token
        self.kubelet_client = directory / "kubelet-client.crt"
        self.audit_log = directory / "audit.log"
        self._key = directory / "service-accounts.key"
        self._env = {"PATH": os.environ.get("PATH", ""), "HOME": str(directory), "GOGC": GOGC, **go}
        etcd = f"http://{LOOPBACK}:{etcd_port}"
        self.etcd = self._daemon("etcd", *_etcd_flags(directory / "etcd", etcd, f"http://{LOOPBACK}:{peer_port}"))
        self.api = self._daemon("kube-apiserver", *self._api_flags(etcd, api_port))
        self.controllers = self._daemon("kube-controller-manager", *self._controllers_flags())
        self.scheduler = self._daemon("kube-scheduler", *self._scheduler_flags())
        self.kwok = self._daemon("kwok", *self._kwok_flags())

    @property
    def daemons(self) -> list[Daemon]:
        return [self.etcd, self.api, self.controllers, self.scheduler, self.kwok]

    def start(self) -> None:
        """Start all processes and wait until the API server serves; raise RuntimeError with the logs."""
        self._write_files()
        try:
            self.etcd.start()
            self.start_api()
            self.restart_clients()
        except BaseException:
            self.stop()
            raise

    def start_api(self) -> None:
        """Start the API server and wait until it serves."""
        self.api.start()
        with httpx.Client(verify=False, trust_env=False, timeout=PATIENCE_S) as client:
            until(lambda: self._serves(client), f"the API server serves; see {self.api.log}")

    def restart_clients(self) -> None:
        """Restart the clients of the API server, which may take a minute to notice that it is available again."""
        for daemon in (self.controllers, self.scheduler, self.kwok):
            daemon.kill()
            daemon.start()

    def _serves(self, client: httpx.Client) -> bool:
        for daemon in (self.etcd, self.api):
            if not daemon.runs():
                raise RuntimeError(f"{daemon.name} ended while it started:\n{daemon.tail()}")
        try:
            return client.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """End every process; etcd last, so that no other process logs its loss."""
        for daemon in reversed(self.daemons):
            daemon.kill()

    def _daemon(self, name: str, *flags: str) -> Daemon:
        return Daemon([self._tools / name, *flags], self._directory / f"{name}.log", self._env)

    def _write_files(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        _write_secret(self._key, key.private_bytes(*form).decode())
        _write_secret(self._directory / "tokens.csv", f'{self._token},admin,admin,"system:masters"\n')
        write_kubeconfig(self.kubeconfig, self.url, self.ca, self._token)
        write_client_certificate(self.kubelet_client, self.kubelet_client.with_suffix(".key"), "kube-apiserver")
        scheduler = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 2,
        }
        (self._directory / "scheduler.json").write_text(json.dumps(scheduler))
        (self._directory / "audit.json").write_text(json.dumps(POLICY))

    def _api_flags(self, etcd: str, port: int) -> list[str]:
        return [
            f"--etcd-servers={etcd}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={self.ca.parent}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            f"--kubelet-client-certificate={self.kubelet_client}",
            f"--kubelet-client-key={self.kubelet_client.with_suffix('.key')}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",  # no pod could reach the server there
            "--event-ttl=10m",
            f"--audit-policy-file={self._directory / 'audit.json'}",
            f"--audit-log-path={self.audit_log}",
            "--profiling=false",
        ]

    def _controllers_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--root-ca-file={self.ca}",
            f"--service-account-private-key-file={self._key}",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            "--concurrent-namespace-syncs=4",
            "--pvclaimbinder-sync-period=1s",  # of a claim that came before its volume, else 15 s
            "--controllers=*,-ttl-controller",  # which changes each new node, to set the cache time of kubelets
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={self._node_grace_s}s",
            "--profiling=false",
        ]

    def _scheduler_flags(self) -> list[str]:
        return [f"--config={self._directory / 'scheduler.json'}", "--secure-port=0"]

    def _kwok_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--config={KWOK_CONFIG}",
            "--v=WARN",
            f"--node-lease-duration-seconds={max(4, self._node_grace_s * 2 // 3)}",
        ]


def write_kubeconfig(path: Path, url: str, ca: Path, token: str) -> None:
    """Write a kubeconfig, readable by its owner only, for the bearer of ``token``."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    _write_secret(path, json.dumps(content, indent=2))


def _write_secret(path: Path, content: str) -> None:
    path.touch(mode=0o600)
    path.write_text(content)


def _etcd_flags(data: Path, client: str, peer: str) -> list[str]:
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={4 << 30}",
        "--log-level=warn",
    ]
