"""What an admin says about the cluster is taken as it is meant, or refused in one plain sentence."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from springtide.hub_extension.cluster.settings import cluster_settings
from springtide.hub_extension.service.service import Springtide, main
from springtide.scheduler.capture.environment import image_contents
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.engine.requests.acceptance import declared_contents
from springtide.scheduler.settings import SettingError

STATE = Path("/srv/pool")
GIVEN: dict[str, Any] = {"namespace": "jobs", "jobs_claim": "files"}


def settings(**more: Any) -> Any:
    return cluster_settings({**GIVEN, **more}, state_dir=STATE, images=("lab/base:1",))


def refused(**more: Any) -> str:
    with pytest.raises(SettingError) as error:
        settings(**more)
    return str(error.value)


def test_what_is_left_out_has_its_default() -> None:
    found = settings()
    assert (found.namespace, found.pool, found.jobs_claim, found.gpu_resources[0]) == (
        "jobs", "springtide", "files", "nvidia.com/gpu",
    )  # fmt: skip
    assert (found.state_dir, found.images) == (STATE, ("lab/base:1",))


def test_what_json_says_becomes_what_the_executor_takes() -> None:
    found = settings(
        topology={"rack": "rack"},
        gpu_type_labels=["kind"],
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        static_nodes=[{"name": "a", "gpus": 8}],
        cpu_per_gpu=4,
        lost_after=None,
    )
    assert found.gpu_type_labels == ("kind",)
    assert found.tolerations == ({"key": "gpu", "operator": "Exists"},)
    assert (found.cpu_per_gpu, found.lost_after) == (4.0, None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"namspace": "jobs"}, "unknown key “namspace”. Did you mean namespace?"),
        ({"xyzzy": 1}, "unknown key “xyzzy”. Known are: agent_labels,"),
        ({"images": ["a"]}, "“images”; set Springtide.images instead"),
        ({"state_dir": "/x"}, "“state_dir”; set Springtide.state_dir instead"),
        ({"namespace": 3}, "namespace is 3; expected text"),
        ({"namespace": "A_B"}, "namespace is “A_B”; expected at most 63 small letters, digits and dashes"),
        ({"pool": "x" * 64}, "pool is"),
        ({"run_as": "1000"}, "run_as is “1000”; expected a whole number"),
        ({"run_as": True}, "run_as is True; expected a whole number"),
        ({"run_as": 0}, "run_as is 0; expected a whole number of at least 1"),
        ({"fs_group": -1}, "fs_group is -1"),
        ({"run_as": None}, "one of run_as and fs_group is None"),
        ({"topology": ["rack"]}, "topology is ['rack']; expected an object, each value text"),
        ({"node_selector": {"a": 1}}, "node_selector is {'a': 1}; expected an object, each value text"),
        ({"gpu_resources": []}, "gpu_resources is empty"),
        ({"types": {}}, "“types”; set Springtide.gpu_types instead"),
        ({"gpu_type_labels": "kind"}, "gpu_type_labels is “kind”; expected a list, each item text"),
        ({"cpu_per_gpu": -1.0}, "cpu_per_gpu is -1.0; expected a number above 0"),
        ({"cpu_per_gpu": float("nan")}, "cpu_per_gpu is nan"),
        ({"lost_after": 0}, "lost_after is 0; expected a number above 0"),
        ({"image_pull_policy": "Sometimes"}, "expected one of Always, IfNotPresent, Never"),
        ({"jobs_host_path": "/srv"}, "both jobs_claim and jobs_host_path are given"),
        ({"jobs_claim": None}, "neither jobs_claim nor jobs_host_path is given"),
        ({"jobs_claim": None, "jobs_host_path": "srv"}, "jobs_host_path is “srv”; expected an absolute path"),
        ({"jobs_sub_path": "../x"}, "jobs_sub_path is “../x”"),
        ({"shared_memory": "disk"}, "shared_memory is “disk”; expected "),
        ({"shared_memory": {}}, "shared_memory is {}; expected memory, runtime or one kind of volume"),
        ({"shared_memory": {"csi": "tmpfs"}}, "expected memory, runtime or one kind of volume"),
        (
            {"shared_memory": {"hostPath": {"path": "/dev/shm"}}},
            "a volume of the kind “hostPath”; expected one of ephemeral, csi, emptyDir",
        ),
        ({"home_path": "home"}, "home_path is “home”"),
        ({"rdma_resources": {"rdma/a": "1"}}, "rdma_resources is {'rdma/a': '1'}; expected an object"),
        ({"rdma_resources": {"rdma/a": 0}}, "rdma_resources has 0 of “rdma/a”; expected a number from 1"),
        ({"rdma_resources": {"rdma": 1}}, "rdma_resources has “rdma”; expected an extended resource"),
        ({"rdma_resources": {"nvidia.com/mig-1g": 1}}, "an extended resource that is none of gpu_resources"),
        ({"rdma_networks": "ib0"}, "rdma_networks is about RDMA, and rdma_resources is empty"),
        ({"static_nodes": [{"name": "a", "gpus": 8, "rdma": 8}]}, "a node of static_nodes is about RDMA"),
        ({"device_class": ""}, "device_class is “”; expected"),
        (
            {"device_class": "gpu.nvidia.com", "static_nodes": [{"name": "a", "gpus": 8}]},
            "device_class and static_nodes are both set",
        ),
        ({"static_nodes": [{"gpus": 8}]}, "static_nodes has {'gpus': 8}; expected a name"),
        ({"static_nodes": [{"name": "a", "gpus": "8"}]}, "expected a name and a whole number of gpus"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(more: dict[str, Any], says: str) -> None:
    said = refused(**more)
    assert said.startswith("Springtide.kubernetes")
    assert says in said


def test_a_service_in_a_pod_knows_its_namespace(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("team-a\n")
    found = cluster_settings({"jobs_claim": "f"}, state_dir=STATE, images=("a",), pod_namespace=file)
    assert found.namespace == "team-a"
    with pytest.raises(SettingError, match="has no namespace"):
        cluster_settings({"jobs_claim": "f"}, state_dir=STATE, images=("a",), pod_namespace=tmp_path / "none")


# ---------- together with the other settings


def service(**given: Any) -> Springtide:
    return Springtide(state_dir="/srv/pool", **given)


ON_CLUSTER: dict[str, Any] = {"executor": "kubernetes", "kubernetes": GIVEN, "images": ["lab/base:1", "lab/*"]}


def test_the_engine_and_the_executor_know_the_same_images() -> None:
    setup = service(**ON_CLUSTER).setup()
    assert setup.cluster is not None
    assert setup.cluster.images == setup.engine.images == ("lab/base:1", "lab/*")


def test_what_images_contain_is_read_from_the_files_that_the_command_writes(tmp_path: Path) -> None:
    printed = CliRunner().invoke(image_contents, []).output
    (tmp_path / "torch.json").write_text(printed)
    contents = {"lab/torch:*": str(tmp_path / "torch.json")}
    declared = service(**ON_CLUSTER, image_contents=contents).setup().engine.image_contents
    found = declared["lab/torch:*"]
    assert found.python == platform.python_version()
    assert {"msgspec", "springtide", "sqlalchemy"} <= set(found.modules)
    assert "json" not in found.modules
    assert found.packages["msgspec"] == version("msgspec")
    assert declared_contents("lab/torch:2", declared) == found
    assert declared_contents("lab/base:1", declared) is None


def test_datasets_are_directories_of_this_machine_or_of_claims_of_the_cluster() -> None:
    here = service(datasets={"a": {"path": "/srv/a", "projects": ["vision"]}}).setup().engine.datasets
    assert here == {"a": Dataset("a", path="/srv/a", projects=("vision",))}
    there = service(**ON_CLUSTER, datasets={"a": {"claim": "data", "sub_path": "a"}}).setup().engine
    assert there.datasets == {"a": Dataset("a", claim="data", sub_path="a")}
    assert there.datasets["a"].place == "/datasets/a"


def test_one_machine_has_no_cluster_and_no_images() -> None:
    setup = service().setup()
    assert (setup.cluster, setup.engine.images) == (None, None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({**ON_CLUSTER, "executor": "local"}, "Springtide.kubernetes means something on a cluster only"),
        ({"images": ["a"]}, "Springtide.images means something on a cluster only"),
        ({"image_contents": {"a": "f"}}, "Springtide.image_contents means something on a cluster only"),
        ({**ON_CLUSTER, "image_contents": {"a b": "f"}}, "Springtide.image_contents: “a b” is no name or pattern"),
        ({**ON_CLUSTER, "image_contents": {"a": "/no/such"}}, "“/no/such”, of “a”, cannot be read: No such file"),
        ({**ON_CLUSTER, "image_contents": {"a": "/dev/null"}}, "is what `springtide image-contents` prints"),
        ({"datasets": {"a": {"claim": "c"}}}, "“a”: claim and sub_path are for jobs on a cluster"),
        ({"datasets": {"a": {"path": "data"}}}, "“a”: path is “data”; expected a directory of this machine"),
        ({"datasets": {"a/b": {"path": "/data"}}}, "“a/b”: expected a name of at most 63 letters"),
        (
            {"datasets": {"a": {"path": "/data", "project": ["x"]}}},
            "There is no field “project”. Did you mean projects?",
        ),
        ({"datasets": {"a": {"path": "/data", "projects": [""]}}}, "projects has an empty name"),
        ({**ON_CLUSTER, "datasets": {"a": {"path": "/data"}}}, "“a”: path is for jobs on one machine"),
        (
            {**ON_CLUSTER, "datasets": {"a": {"claim": "A b"}}},
            "claim is “A b”; expected the name of a volume",
        ),
        ({**ON_CLUSTER, "datasets": {"a": {"claim": "c", "sub_path": "../b"}}}, "“../b”; expected a path within"),
        ({"train_jobs": ["team"]}, "Springtide.train_jobs means something on a cluster only"),
        ({**ON_CLUSTER, "images": []}, "Springtide.images: the list is empty"),
        ({**ON_CLUSTER, "images": ["lab/*"]}, "“lab/*” comes first and is the default"),
        ({**ON_CLUSTER, "build_gpus": 2}, "Springtide.build_gpus is for one machine"),
        ({**ON_CLUSTER, "simulated_gpus": 2}, "Springtide.simulated_gpus is for one machine"),
        ({**ON_CLUSTER, "accounts": "own"}, "Springtide.accounts is for one machine"),
        ({**ON_CLUSTER, "kubernetes": {"pol": "x"}}, "unknown key “pol”. Did you mean pool?"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError) as refused:
        service(**given).setup()
    assert says in str(refused.value)


def test_a_bad_setting_ends_the_service_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"executor": "kubernetes", "images": ["a"], "kubernetes": {"pol": 1}}
    monkeypatch.setenv("SPRINGTIDE_CONFIG", json.dumps(given))
    assert main([]) == 2
    assert capsys.readouterr().err == (
        "springtide: Springtide.kubernetes has an unknown key “pol”. Did you mean pool?\n"
    )


def test_an_executor_that_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPRINGTIDE_CONFIG", '{"executor": "slurm"}')
    assert main([]) == 2
    assert "executor" in capsys.readouterr().err
