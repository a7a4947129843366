"""A real node runs pods: the test of what other tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from clusters.cluster import Cluster
from clusters.control_plane import until
from clusters.enclosure import CGROUPS, directory_of_its_own
from clusters.node_images import image
from clusters.real_node import GPU_RESOURCE, RealNode, volume
from clusters.real_pods import RECORDED, Pods
from patience import PATIENCE_S

SERVER = """
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.uname().nodename.encode())
print("serving", flush=True)
http.server.HTTPServer(("", 8080), Answer).serve_forever()
"""
CLIENT = """
import sys, time, urllib.request
def read(url):
    while True: # an address of a Service takes a moment to lead somewhere
        try:
            return urllib.request.urlopen(url, timeout=20).read().decode()
        except OSError:
            time.sleep(0.2)
for url in sys.argv[1:]:
    print(url, read(url))
"""
API_CLIENT = """
import ssl, sys, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
request = urllib.request.Request(sys.argv[1])
request.add_header("Authorization", "Bearer " + open(account + "token").read())
try:
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account + "ca.crt"), timeout=120)
except urllib.error.HTTPError as error:
    print(error.code, "its own name" if b"serviceaccount:" in error.read() else "")
"""
UNTIL_TOLD = """
import signal, sys, time
def told(number, frame):
    print("told", signal.Signals(number).name, flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, told)
print("working", flush=True)
time.sleep(600)
"""


def test_a_program_runs_in_the_notebook_image_and_its_log_and_exit_code_are_read(pods: Pods) -> None:
    program = "import os, springtide.widgets, jupyterlab; print('I am', os.getuid(), os.getgid()); exit(3)"
    pods.create("a", program)
    assert pods.exit_code("a") == 3
    assert pods.log("a") == "I am 1000 100\n"


def test_the_service_image_has_the_service_and_the_hub(pods: Pods) -> None:
    modules = "jupyterhub, kubernetes.aio, psycopg, springtide.hub_extension, springtide.spawner"
    program = f"import {modules}; print('y')"
    assert pods.run("service", program, container={"image": image("service")}) == "y\n"


def test_a_pod_deleted_with_grace_is_told_and_its_exit_code_is_seen(pods: Pods) -> None:
    pods.create("a", UNTIL_TOLD, metadata={"finalizers": [RECORDED]})
    pods.says("a", "working")
    pods.delete("a", grace_s=30)
    assert pods.exit_code("a") == 75
    assert pods.log("a") == "working\ntold SIGTERM\n"
    pods.cluster.request("PATCH", f"{pods.path}/a", {"metadata": {"finalizers": None}})
    until(lambda: not pods.cluster.exists(f"{pods.path}/a"), "the pod is gone")


def test_pods_reach_each_other_by_name_and_the_api_server(pods: Pods, namespace: str) -> None:
    """By the name of a Service, of a member of a headless one, and by address."""
    services = f"/api/v1/namespaces/{namespace}/services"
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    for name, port, extra in (("web", ports, {}), ("gang", [{"port": 8080}], {"clusterIP": "None"})):
        spec = {"selector": {"app": "web"}, "ports": port, **extra}
        pods.cluster.request("POST", services, {"metadata": {"name": name}, "spec": spec})
    pods.create("server", SERVER, metadata={"labels": {"app": "web"}}, hostname="w0", subdomain="gang")
    pods.says("server", "serving")
    address = pods.get("server")["status"]["podIP"]
    until(lambda: _endpoints(pods.cluster, namespace, "gang") == {address}, "the Service knows its pod")

    urls = [
        "http://web",
        f"http://web.{namespace}.svc.cluster.local",
        "http://w0.gang:8080",
        f"http://{address}:8080",
    ]
    assert pods.run("client", CLIENT, *urls) == "".join(f"{url} w0\n" for url in urls)
    account = {"automountServiceAccountToken": True}
    assert (
        pods.run("api", API_CLIENT, "https://kubernetes.default/api/v1/nodes", **account) == "403 its own name\n"
    )


def test_pods_of_two_nodes_reach_each_other(pods: Pods, real_build_node: RealNode, namespace: str) -> None:
    elsewhere = Pods(pods.cluster, real_build_node, namespace)
    elsewhere.create("server", SERVER)
    elsewhere.says("server", "serving")
    url = f"http://{pods.get('server')['status']['podIP']}:8080"
    assert pods.run("client", CLIENT, url) == f"{url} server\n"


def test_this_machine_reaches_a_service_by_the_port_of_a_node(pods: Pods, namespace: str) -> None:
    spec = {"selector": {"app": "web"}, "type": "NodePort", "ports": [{"port": 80, "targetPort": 8080}]}
    path = f"/api/v1/namespaces/{namespace}/services"
    service = pods.cluster.request("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    pods.create("server", SERVER, metadata={"labels": {"app": "web"}})
    pods.says("server", "serving")
    url = f"http://{pods.node.address}:{service['spec']['ports'][0]['nodePort']}"

    def answers() -> bool:
        try:
            return httpx.get(url, trust_env=False, timeout=PATIENCE_S, verify=False).text == "server"
        except httpx.TransportError:
            return False

    until(answers, f"{url} answers")


def test_pods_share_files_on_a_claimed_volume(pods: Pods, namespace: str, tmp_path: Path) -> None:
    mounted = {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]}
    container = {"volumeMounts": [{"name": "home", "mountPath": "/home/jovyan"}]}
    with volume(pods.cluster, tmp_path / "home", claim=(namespace, "home")):
        pods.run("writer", "open('/home/jovyan/a', 'w').write('kept')", container=container, **mounted)
        assert (tmp_path / "home" / "a").read_text() == "kept"
        assert pods.run("reader", "print(open('a').read())", container=container, **mounted) == "kept\n"


def test_simulated_gpus_are_given_to_one_pod_at_a_time(pods: Pods, real_node: RealNode) -> None:
    wanted = {"resources": {"limits": {GPU_RESOURCE: "2"}}}
    pods.create("first", UNTIL_TOLD, container=wanted)
    pods.says("first", "working")
    pods.create("second", "print('mine')", container=wanted)
    pods.wait("second", _does_not_fit)
    pods.delete("first", grace_s=30)
    assert pods.exit_code("second") == 0


KILLED = """
import sys, time
from pathlib import Path
from clusters.cluster_tools import tools
from clusters.enclosure import Enclosure, directory_of_its_own
with directory_of_its_own(Path(sys.argv[1])) as directory:
    enclosure = Enclosure(directory, tools() / "pause").start()
    enclosure.daemon("sleep", "600")
    print(enclosure.pid, directory.name, flush=True)
    time.sleep(600)
"""


def test_nothing_of_a_node_outlives_a_test_process_that_is_killed(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, name = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the node has ended")
    assert name not in Path("/proc/mounts").read_text()
    with directory_of_its_own(tmp_path) as directory:
        assert [each.name for each in tmp_path.iterdir()] == [directory.name]
        assert not list(CGROUPS.glob(f"**/{name}"))


def _endpoints(cluster: Cluster, namespace: str, service: str) -> set[str]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = cluster.items(path, labelSelector=f"kubernetes.io/service-name={service}")
    return {address for each in slices for end in each["endpoints"] or [] for address in end["addresses"]}


def _does_not_fit(pod: dict[str, object]) -> bool:
    status = pod["status"]
    assert isinstance(status, dict)
    return any(each.get("reason") == "Unschedulable" for each in status.get("conditions", []))
