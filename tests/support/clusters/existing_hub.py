"""A hub as zero-to-jupyterhub sets one up, on real nodes, with the values of the guide, and the pool beside it.

Names, objects and settings are those of that chart; none of its code is here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.chart import Helm, shown_values
from clusters.cluster import Cluster
from clusters.kube_product import RESTRICTED, Product
from clusters.node_images import image
from clusters.real_node import RealNode, volume

PASSWORD = "a user's password"
TOKEN = "made-by-zero-to-jupyterhub-for-the-service"
LABELS = {"app": "jupyterhub", "component": "hub", "release": "jhub"}
CONFIG = """
import json, os, sys
from pathlib import Path

values = json.loads(Path(__file__).with_name("values.json").read_text())
c = get_config()
c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.JupyterHub.bind_url = "http://:8000"
c.JupyterHub.hub_bind_url = "http://:8081"
c.JupyterHub.hub_connect_url = "http://hub:8081"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.db_url = "sqlite:////tmp/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = "/tmp/cookie-secret"
c.ConfigurableHTTPProxy.command = [sys.executable, "-m", "springtide.hub_extension.local_hub.proxy"]
c.ConfigurableHTTPProxy.pid_file = "/tmp/proxy.pid"
c.KubeSpawner.namespace = os.environ["POD_NAMESPACE"]
c.KubeSpawner.common_labels = {"app": "jupyterhub", "release": "jhub"}
c.KubeSpawner.start_timeout = c.KubeSpawner.http_timeout = 300
c.KubeSpawner.uid, c.KubeSpawner.fs_gid = 1000, 100

user = values["singleuser"]
c.KubeSpawner.image = f"{user['image']['name']}:{user['image']['tag']}"
c.KubeSpawner.node_selector = user["nodeSelector"]
c.KubeSpawner.tolerations = user["extraTolerations"]
dynamic = user["storage"]["dynamic"]
c.KubeSpawner.storage_pvc_ensure = True
c.KubeSpawner.pvc_name_template = "claim-{user_server}"
c.KubeSpawner.storage_capacity = "1Gi"
c.KubeSpawner.storage_access_modes = dynamic["storageAccessModes"]
c.KubeSpawner.storage_class = dynamic["storageClass"]
home = {"name": "volume-{user_server}", "persistentVolumeClaim": {"claimName": "claim-{user_server}"}}
c.KubeSpawner.volumes = [home]
c.KubeSpawner.volume_mounts = [{"name": home["name"], "mountPath": "/home/jovyan"}]

c.JupyterHub.services = []
for key, service in values["hub"]["services"].items():
    token = os.environ[f"TOKEN_{key.upper()}"]
    c.JupyterHub.services.append({"name": key, "api_token": token, **service})
for section, settings in values["hub"]["config"].items():
    c[section].update(settings)
for key, text in sorted(values["hub"]["extraConfig"].items()):
    exec(compile(text, key, "exec"))
"""


@dataclass(frozen=True)
class Beside(Product):
    """A release of the chart without a hub of its own, beside one of the namespace."""

    @property
    def url(self) -> str:
        """The URL for users: the port of that hub's proxy on a node."""
        [port] = self.get("services/proxy-public")["spec"]["ports"]
        return f"http://{next(iter(self.nodes.values())).address}:{port['nodePort']}"

    @property
    def password(self) -> str:
        """The password of all users."""
        return PASSWORD


@contextlib.contextmanager
def beside_a_hub(
    cluster: Cluster, nodes: Mapping[str, RealNode], directory: Path, projects: Mapping[str, list[str]]
) -> Iterator[Beside]:
    """Yield the pool, installed by the guide's command beside a hub with the guide's values."""
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(cluster.namespace(RESTRICTED))
        for name in ("store", "jobs", "home"):
            stack.enter_context(volume(cluster, directory / name, storage_class=f"{namespace}-{name}"))
        for path, body in _objects(_values(namespace, projects)):
            cluster.request("POST", path.format(namespace=namespace), body)
        made = Beside(cluster, nodes, Helm(directory / "helm", cluster.env), namespace)
        stack.callback(made.uninstall)
        made.install(_pool(namespace, projects))
        yield made


def _pool(namespace: str, projects: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the values of the release: those of the guide's command, with storage and projects of the test."""
    images = {name: dict(zip(("repository", "tag"), image(name).rsplit(":", 1), strict=True)) for name in IMAGES}
    return {
        "hub": {"enabled": False},
        "images": images,
        "service": {
            "projects": [{"name": name, "quota": 1, "build_quota": 1} for name in projects],
            "settings": {"min_runtime": 0},
            "storage": {"storageClassName": f"{namespace}-store"},
        },
        "train": {
            "jobs": {"storageClassName": f"{namespace}-jobs", "size": "1Gi"},
            "cpuPerGpu": 0.1,
            "memoryPerGpu": 0.5,
        },
    }


IMAGES = ("service", "notebook")


def _values(namespace: str, projects: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the guide's values for that hub, with this machine's images, storage and people."""
    shown = shown_values()["zero-to-jupyterhub"]
    name, tag = image("notebook").rsplit(":", 1)
    shown["singleuser"]["image"] = {"name": name, "tag": tag}
    shown["singleuser"]["storage"]["dynamic"]["storageClass"] = f"{namespace}-home"
    shown["hub"]["config"] = {
        "JupyterHub": {
            "authenticator_class": "shared-password",
            "load_groups": {name: {"users": users} for name, users in projects.items()},
        },
        "SharedPasswordAuthenticator": {"user_password": PASSWORD, "allow_all": True},
    }
    return shown


def _objects(values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what that chart makes for a hub and its proxy, with the paths of their collections."""
    core, rbac = "/api/v1/namespaces/{namespace}", "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    token = {"stringData": {"hub.services.springtide.apiToken": TOKEN}}
    yield f"{core}/secrets", {"metadata": {"name": "hub"}, **token}
    files = {"jupyterhub_config.py": CONFIG, "values.json": json.dumps(values)}
    yield f"{core}/configmaps", {"metadata": {"name": "hub"}, "data": files}
    yield f"{core}/serviceaccounts", {"metadata": {"name": "hub"}}
    rules = [
        {
            "apiGroups": [""],
            "resources": ["pods", "persistentvolumeclaims", "secrets", "services"],
            "verbs": ["*"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "watch", "list"]},
    ]
    yield f"{rbac}/roles", {"metadata": {"name": "hub"}, "rules": rules}
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"},
        "subjects": [{"kind": "ServiceAccount", "name": "hub"}],
    }
    yield f"{rbac}/rolebindings", {"metadata": {"name": "hub"}, **binding}
    for name, port, kind in (("hub", 8081, "ClusterIP"), ("proxy-public", 8000, "NodePort")):
        spec = {"type": kind, "selector": LABELS, "ports": [{"port": port, "targetPort": port}]}
        yield f"{core}/services", {"metadata": {"name": name}, "spec": spec}
    yield "/apis/apps/v1/namespaces/{namespace}/deployments", _deployment()


def _deployment() -> dict[str, Any]:
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    of_pod = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    of_hub = {"secretKeyRef": {"name": "hub", "key": "hub.services.springtide.apiToken"}}
    container = {
        "name": "hub",
        "image": image("service"),
        "command": ["python3", "-m", "jupyterhub", "--config", "/etc/jupyterhub/jupyterhub_config.py"],
        "workingDir": "/tmp",
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "POD_NAMESPACE", "valueFrom": of_pod},
            {"name": "TOKEN_SPRINGTIDE", "valueFrom": of_hub},
        ],
        "securityContext": restricted,
        "volumeMounts": [{"name": "config", "mountPath": "/etc/jupyterhub"}],
    }
    spec = {
        "serviceAccountName": "hub",
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "hub"}}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {"metadata": {"name": "hub"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}
