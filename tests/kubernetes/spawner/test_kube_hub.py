"""A hub and the pool's service beside a real cluster.

Notebooks are pods, the build quota is kept, and nobody is left to guess; one service is at work at a time.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clusters.api_relay import ApiRelay
from clusters.cluster import POOL_LABEL, Cluster
from clusters.dra_driver import DraDriver, gpus
from clusters.kube_hub import ENVIRONMENT, START_TIMEOUT_S, KubeHub, until

GPU = "nvidia.com/gpu"


def notebook(pod: dict[str, Any]) -> dict[str, Any]:
    """The container of the notebook server."""
    [container] = [each for each in pod["spec"]["containers"] if each["name"] == "notebook"]
    return dict(container)


def env(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in notebook(pod)["env"]}


def test_a_notebook_runs_on_the_build_node_of_its_gpus(hub: KubeHub, place: str) -> None:
    hub.start_notebook("susan", {"gpus": 2}).raise_for_status()
    pod = hub.ready("susan")
    assert notebook(pod)["resources"]["limits"][GPU] == notebook(pod)["resources"]["requests"][GPU] == "2"
    assert pod["spec"]["nodeName"].startswith(f"{place}-build-")
    [node] = [node.name for node in hub.pool.pool().nodes if any(cell.holder for cell in node.gpus)]
    assert pod["spec"]["nodeName"] == node
    assert hub.held() == {("susan", ""): 2}


def test_a_notebook_claims_gpus_that_a_driver_publishes_and_gives_them_back(
    hub: KubeHub, cluster: Cluster, place: str, driver: DraDriver
) -> None:
    labels = {POOL_LABEL: place, ENVIRONMENT: "build", "springtide.io/gpu-type": "gpu"}
    (node,) = cluster.add_fake_nodes(1, labels=labels, prefix=f"claimed-{place}", resources={})
    driver.publish(node, gpus(node, 2))
    others = [f"{place}-build-{number}" for number in range(2)]

    def open_nodes() -> set[str]:
        return {each.name for each in hub.pool.pool().nodes if each.environment == "build" and each.available}

    def cordon(*, closed: bool) -> None:
        for each in others:
            cluster.request("PATCH", f"/api/v1/nodes/{each}", {"spec": {"unschedulable": closed}})

    try:
        cordon(closed=True)
        until("the only open build node is that of the driver", lambda: open_nodes() == {node})
        hub.start_notebook("susan", {"gpus": 1}).raise_for_status()
        pod = hub.ready("susan")
        assert pod["spec"]["nodeName"] == node
        assert GPU not in notebook(pod)["resources"].get("limits", {})
        (device,) = driver.devices(place)[pod["metadata"]["name"]]
        named = {f"GPU-{node}-{device.removeprefix('gpu-')}"}

        def held() -> set[str]:
            cells = [cell for each in hub.pool.pool().nodes for cell in each.gpus]
            return {cell.uuid for cell in cells if cell.holder is not None and cell.holder.kind == "workspace"}

        until("the workspace is shown with the GPU of its claim", lambda: held() == named)
        hub.stop_notebook("susan")
        until("its claim is gone", lambda: not driver.claims(place))
    finally:
        cordon(closed=False)
        driver.withdraw(node)
        cluster.remove_nodes([node])
        until("the nodes are as before", lambda: open_nodes() == {*others})


def test_a_notebook_knows_its_image_and_the_pool_and_leaves_gpus_to_the_node(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 1}).raise_for_status()
    told = env(hub.ready("susan"))
    assert told["SPRINGTIDE_IMAGE"] == "lab/notebook:1"
    assert told["SPRINGTIDE_URL"] == hub.service_url
    assert not {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} & set(told)


def test_a_notebook_mounts_the_datasets_of_its_owners_projects_read_only(hub: KubeHub) -> None:
    hub.start_notebook("joe", {"gpus": 0}).raise_for_status()
    pod = hub.ready("joe")
    (mount,) = [each for each in notebook(pod)["volumeMounts"] if each["name"] == "datasets-0"]
    assert mount == {"name": "datasets-0", "mountPath": "/datasets/digits", "subPath": "digits", "readOnly": True}
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "datasets-0"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data", "readOnly": True}
    assert env(pod)["SPRINGTIDE_DATASETS"] == '{"digits": "/datasets/digits"}'


def test_a_notebook_without_gpus_sees_none_and_still_runs_on_a_build_node(hub: KubeHub, place: str) -> None:
    hub.start_notebook("susan", {"gpus": 0}).raise_for_status()
    pod = hub.ready("susan")
    assert notebook(pod)["resources"]["limits"][GPU] == "0"
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert pod["spec"]["nodeName"].startswith(f"{place}-build-")


def test_pods_meet_the_restricted_standard_without_a_token(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 0}).raise_for_status()
    pod = hub.ready("susan")
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["fsGroup"] == 100
    assert notebook(pod)["securityContext"] == {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    dry = {"metadata": {"name": "as-restricted"}, "spec": {**pod["spec"], "nodeName": None}}
    with hub.cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as restricted:
        hub.cluster.request("POST", f"/api/v1/namespaces/{restricted}/pods", dry, dryRun="All")


def test_a_persons_home_is_a_claim_that_names_her(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 0}).raise_for_status()
    hub.ready("susan")
    claims = hub.cluster.items(f"/api/v1/namespaces/{hub.namespace}/persistentvolumeclaims")
    noted = [claim["metadata"].get("annotations", {}) for claim in claims]
    assert "susan" in {annotations.get("hub.jupyter.org/username") for annotations in noted}


def test_the_build_quota_is_kept_whoever_asks_for_more(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 2}).raise_for_status()
    hub.ready("susan")
    refused = hub.start_notebook("susan", {"gpus": 1}, "second")
    assert refused.status_code == 409
    assert "susan has a build quota of 2 GPUs and holds 2; this workspace asks for 1." in refused.json()["message"]
    assert len(hub.pods()) == 1
    assert hub.start_notebook("jemma", {"gpus": 1}).status_code == 409


def test_gpus_of_one_start_are_not_left_to_the_next(hub: KubeHub) -> None:
    refused = hub.start_notebook("susan", {"gpus": 3, "profile": "vision", "memory": "little"})
    assert refused.status_code == 409
    hub.start_notebook("susan", {"gpus": 0, "profile": "plain"}).raise_for_status()
    pod = hub.ready("susan")
    assert notebook(pod)["resources"]["limits"] == {GPU: "0"}
    hub.stop_notebook("susan")
    hub.start_notebook("susan", {"gpus": 2, "profile": "vision"}).raise_for_status()
    first = hub.ready("susan")
    assert (notebook(first)["image"], env(first)["FROM"]) == ("lab/vision:1", "vision")
    assert notebook(first)["resources"]["limits"] == {GPU: "2", "example.com/fpga": "0", "memory": "1073741824"}
    hub.stop_notebook("susan")
    hub.start_notebook("susan", {"gpus": 0, "profile": "plain"}).raise_for_status()
    second = hub.ready("susan")
    assert (notebook(second)["image"], env(second).get("FROM")) == ("lab/notebook:1", None)
    assert notebook(second)["resources"]["limits"] == {GPU: "0"}


@pytest.mark.parametrize(
    ("user", "options", "status", "says"),
    [
        (
            "joe",
            {"profile": "speech"},
            403,
            "“speech” is not for you: for members of speech only; you are of vision",
        ),
        ("jemma", {"profile": "vision"}, 403, "for members of vision only; you are of speech"),
        ("joe", {"profile": "none"}, 400, "There is no profile “none”. Yours: plain, vision."),
        ("joe", {"profile": {"slug": "speech"}}, 400, "There is no profile"),
        (
            "joe",
            {"profile": "vision", "memory": "endless"},
            400,
            "memory is “endless”; expected one of little, absurd",
        ),
        ("joe", {"profile": "plain", "memory": "little"}, 400, "Unknown option “memory”"),
        ("joe", {"image": "evil/miner:1"}, 400, "Unknown option “image”"),
        ("joe", {"gpus": -1}, 400, "gpus is -1"),
    ],
)
def test_what_is_not_offered_is_refused_through_the_api_too(
    hub: KubeHub, user: str, options: dict[str, object], status: int, says: str
) -> None:
    refused = hub.start_notebook(user, {"gpus": 0, **options})
    assert refused.status_code == status
    assert says in refused.json()["message"]
    assert not hub.pods()


def test_the_form_offers_the_profiles_of_ones_projects_only(hub: KubeHub) -> None:
    with hub.browser("joe") as browser:
        form = browser.get("/hub/spawn").text
    assert "Your build quota is 2 GPUs" in form
    assert "Vision" in form
    assert "Speech" not in form


def test_the_form_starts_a_notebook(hub: KubeHub) -> None:
    with hub.browser("joe") as browser:
        browser.get("/hub/spawn")
        xsrf = next(c.value for c in browser.cookies.jar if c.name == "_xsrf" and c.path == "/hub/")
        form = {"gpus": "1", "profile": "vision", "profile-option-vision--memory": "little"}
        browser.post("/hub/spawn", params={"_xsrf": xsrf}, data=form).raise_for_status()
    pod = hub.ready("joe")
    assert notebook(pod)["image"] == "lab/vision:1"
    assert notebook(pod)["resources"]["limits"][GPU] == "1"


def test_an_evicted_notebook_has_stopped_and_its_gpus_are_free(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 2}).raise_for_status()
    pod = hub.ready("susan")
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    hub.cluster.request("PATCH", f"{path(hub, pod)}/status", {"status": status})
    until("the end of the notebook", lambda: hub.server("susan") is None)
    until("the release", lambda: not hub.held())
    assert "evicted from its node (The node was low on resource: memory.)" in hub.log("hub")
    hub.start_notebook("susan", {"gpus": 2}).raise_for_status()
    hub.ready("susan")


def test_a_deleted_pod_has_stopped_and_its_gpus_are_free(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 1}).raise_for_status()
    hub.cluster.request("DELETE", path(hub, hub.ready("susan")))
    until("the end of the notebook", lambda: hub.server("susan") is None)
    until("the release", lambda: not hub.held())


def test_the_pending_page_tells_why_and_the_place_in_line(hub: KubeHub) -> None:
    created = {}
    for user in ("susan", "joe"):
        hub.begin_notebook(user, {"gpus": 1, "profile": "vision", "memory": "absurd"})
        metadata = hub.pod(user)["metadata"]
        created[user] = metadata["creationTimestamp"], metadata["uid"]  # whole seconds: both may be the same
    first, second = sorted(created, key=lambda user: created[user])
    told = hub.news_until(first, "No node has room")
    assert "1 node has too little free memory" in told
    assert "Your notebook is number 1 in line." in told
    hub.news_until(second, "number 2 in line")


def test_a_pod_that_ends_before_it_is_ready_is_told_at_once(hub: KubeHub) -> None:
    begun = hub.begin_notebook("susan", {"gpus": 1, "profile": "vision", "memory": "absurd"})
    failed = {"status": {"phase": "Failed", "reason": "Evicted", "message": "The node is shutting down."}}
    hub.cluster.request("PATCH", f"{path(hub, hub.pod('susan'))}/status", failed)
    said = begun.result().json()["message"]
    assert "The notebook's pod ended before it was ready: it was evicted from its node" in said
    assert "The node is shutting down" in said
    until("the release", lambda: not hub.held())


def test_a_quota_of_the_cluster_is_told_in_words(hub: KubeHub) -> None:
    quotas = f"/api/v1/namespaces/{hub.namespace}/resourcequotas"
    hub.cluster.request("POST", quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    try:
        until("the quota", lambda: hub.cluster.request("GET", f"{quotas}/none").get("status", {}).get("hard"))
        said = hub.start_notebook("susan", {"gpus": 1}).json()["message"]
    finally:
        hub.cluster.request("DELETE", f"{quotas}/none")
    assert "The cluster's quota for workspaces is used up" in said
    assert "exceeded quota: none" in said
    until("the release", lambda: not hub.held())


def test_while_the_cluster_is_away_for_long_all_is_taken_to_be_as_it_was(
    hub: KubeHub, api_relay: ApiRelay
) -> None:
    """What runs goes on, what is stopped stops later, nothing starts; and hub and service do not end."""
    for user in ("susan", "joe"):
        hub.start_notebook(user, {"gpus": 1}).raise_for_status()
    pod = hub.ready("susan")
    hub.ready("joe")
    service, holder = hub.process("service"), hub.holder()
    api_relay.cut()
    try:
        assert hub.api.delete("/users/joe/server").status_code == 202
        until("a try", lambda: "The pod of joe could not be deleted yet" in hub.log("hub"))
        refused = hub.start_notebook("susan", {"gpus": 1}, "second")
        assert "The cluster does not answer" in refused.json()["message"]
        until("the service's lease to run out", lambda: "could not be renewed" in hub.log("service"))
        until("tries to watch", lambda: hub.log("hub").count("Error when watching resources") >= 3)
        assert (hub.server("susan") or {}).get("ready")
        until("the release", lambda: hub.held() == {("susan", ""): 1, ("joe", ""): 1})
    finally:
        api_relay.restore()
    until("the end of joe's notebook", lambda: hub.server("joe") is None)
    until("the release", lambda: hub.held() == {("susan", ""): 1})
    until("the lease again", lambda: "No other service is at work on the pool" in hub.log("service"))
    assert (service.runs(), hub.holder()) == (True, holder)
    assert [each["metadata"]["name"] for each in hub.pods()] == [pod["metadata"]["name"]]
    hub.cluster.request("DELETE", path(hub, pod))
    until("the end of the notebook", lambda: hub.server("susan") is None)
    until("the release", lambda: not hub.held())


def test_notebooks_and_their_gpus_outlive_the_hub_and_the_service(hub: KubeHub) -> None:
    hub.start_notebook("susan", {"gpus": 2}).raise_for_status()
    before = hub.ready("susan")
    hub.stop("hub")
    hub.stop("service")
    hub.start_again()
    assert hub.ready("susan")["metadata"]["uid"] == before["metadata"]["uid"]
    assert hub.held() == {("susan", ""): 2}
    assert hub.start_notebook("susan", {"gpus": 1}, "second").status_code == 409
    hub.stop_notebook("susan")
    until("the release", lambda: not hub.held())


def path(hub: KubeHub, pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{hub.namespace}/pods/{pod['metadata']['name']}"


# ---------- the service


@contextmanager
def another(hub: KubeHub, directory: Path, **more: Any) -> Iterator[KubeHub]:
    """Another service of the same pool, with a store of its own."""
    directory.mkdir()
    other = KubeHub(directory, hub.cluster, hub.namespace, **more)
    try:
        other.begin_service()
        yield other
    finally:
        other.close()


def test_the_pool_is_what_the_nodes_say(hub: KubeHub, place: str) -> None:
    nodes = {node.name: (node.environment, len(node.gpus)) for node in hub.pool.pool().nodes}
    build = {f"{place}-build-{number}": ("build", 2) for number in range(2)}
    assert nodes == {**build, f"{place}-train-0": ("train", 2)}


def test_one_service_is_at_work_and_others_wait_leave_when_told_and_take_over(
    hub: KubeHub, tmp_path: Path
) -> None:
    first = hub.holder()
    with another(hub, tmp_path / "second") as second, another(hub, tmp_path / "third") as third:
        waiting = f"Waiting for the service {first}"
        until("the second one to wait", lambda: waiting in second.log("service"))
        until("the third one to wait", lambda: waiting in third.log("service"))
        leaves = third.process("service")
        leaves.signal(signal.SIGTERM)
        until("the third one's end", lambda: not leaves.runs(), seconds=START_TIMEOUT_S)
        assert hub.holder() == first

        hub.stop("service")
        second.until_service_answers()
        assert hub.holder() not in {first, ""}

        hub.hold("somebody-else")
        takes_over = second.process("service")
        until("the second one's end", lambda: not takes_over.runs(), seconds=START_TIMEOUT_S)
        said = "springtide: The service somebody-else is at work on the pool “springtide” now."
        assert said in second.log("service")
        hub.hold("")


def test_a_service_that_the_cluster_does_not_allow_says_so(hub: KubeHub, tmp_path: Path) -> None:
    token = hub.cluster.token_of(hub.namespace, "default")
    config = hub.cluster.kubeconfig_for(token, tmp_path / "nobody.yaml")
    with another(hub, tmp_path / "nobody", kubeconfig=config) as nobody:
        process = nobody.process("service")
        until("its end", lambda: not process.runs(), seconds=START_TIMEOUT_S)
        said = nobody.log("service").splitlines()[-1]
    assert said.startswith("springtide: The cluster does not let this service work: ")
    assert "leases" in said


def train_job(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "springtide.io/v1alpha1", "kind": "SpringtideJob", "metadata": {"name": name}}
    return {**head, "spec": {"command": ["python", "train.py"], **spec}}


def test_a_train_job_runs_in_an_image_of_the_list_and_no_other(hub: KubeHub, cluster: Cluster, place: str) -> None:
    jobs = f"/apis/springtide.io/v1alpha1/namespaces/{place}/springtidejobs"
    cluster.request("POST", jobs, train_job("good", image="lab/torch:2", gpus=2))
    cluster.request("POST", jobs, train_job("bad", image="evil/miner:1"))

    def conditions(name: str) -> dict[str, str]:
        found = cluster.request("GET", f"{jobs}/{name}").get("status", {}).get("conditions", [])
        return {one["type"]: one["message"] for one in found if one["status"] != "Unknown"}

    said = until("the refusal", lambda: conditions("bad").get("Accepted"))
    assert "“evil/miner:1” is not on this pool's list: lab/notebook:1, lab/*" in said
    pods = f"/api/v1/namespaces/{place}/pods"
    [pod] = until("the pod", lambda: cluster.items(pods))
    assert pod["spec"]["containers"][0]["image"] == "lab/torch:2"
    assert pod["metadata"]["annotations"]["springtide.io/project"] == "vision"
    for name in ("good", "bad"):
        cluster.request("DELETE", f"{jobs}/{name}")
    until("the end of both", lambda: not cluster.items(jobs) and not cluster.items(pods))
