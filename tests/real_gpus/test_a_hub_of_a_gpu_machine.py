"""`springtide up` on a machine with real GPUs: a notebook without a GPU sees none, and doctor is content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hubs.gpu_desk import asked
from hubs.hub_people import Hub
from hubs.hub_process import ONE_HOST_NAME, WITHOUT_PAGES
from hubs.kernel_notebook import KernelNotebook
from programs.terminal import springtide

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("real-gpus"), pytest.mark.timeout(600)]

SEES = """
import json, os, subprocess
visible = os.environ.get("CUDA_VISIBLE_DEVICES")
count = subprocess.run(
    ["{python}", "-c", "import torch; print(torch.cuda.device_count())"], capture_output=True, text=True
)
print(json.dumps([visible, count.stdout.strip()]))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the settings that `springtide up` has by itself."""
    hub = Hub(tmp_path_factory.mktemp("machine") / "state", ONE_HOST_NAME + WITHOUT_PAGES)
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def notebook(hub: Hub) -> Iterator[KernelNotebook]:
    """A notebook of susan's without a GPU."""
    with KernelNotebook(hub.url, "susan", hub.token("susan")) as notebook:
        notebook.start(gpus=0)
        yield notebook


def test_a_notebook_without_a_gpu_sees_none_and_all_are_in_the_pool(
    hub: Hub, notebook: KernelNotebook, python: Path
) -> None:
    visible, count = json.loads(notebook.run(SEES.format(python=python)))
    assert (visible, count) == ("", "0")
    assert not hub.held()
    with hub.pool() as pool:
        cells = [cell.uuid for node in pool.pool().nodes for cell in node.gpus]
    assert cells == [uuid for (uuid,) in asked("uuid")]


def test_the_doctor_finds_nothing_wrong(hub: Hub) -> None:
    config = hub.state_dir.parent / "state_config.py"
    said = springtide("doctor", "--state-dir", str(hub.state_dir), "--config", str(config))
    assert said.code == 0, said.out
