"""Models and data of a notebook, by PyTorch, in a job and in its workers."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import framework_tools

TIMEOUT_S = 300.0
NOTEBOOK = """
import os
import pickle
import subprocess
from pathlib import Path

import torch

from springtide.scheduler.capture import Here
from springtide.widgets.submission.capture import capture

root = Path.cwd()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, place):
        return torch.full((2,), float(place))


def stacked(rows):
    return torch.stack(rows)


def work(model):
    rows = []
    for method in ("fork", "spawn", "forkserver"):
        loader = torch.utils.data.DataLoader(
            Data(), batch_size=4, num_workers=1, multiprocessing_context=method, collate_fn=stacked
        )
        rows.append(sum(len(model(batch)) for batch in loader))
    torch.save(model, "model.pt")
    return rows, type(torch.load("model.pt", weights_only=False)) is Net, model


if __name__ == "__main__":
    captured = capture(work, (Net(),), {}, Here(root))
    code = root / "code"
    code.mkdir()
    for name, content in captured.files.items():
        (code / name).write_bytes(content)
    argv = [word.replace("{code}", str(code)) for word in captured.argv]
    subprocess.run(argv, env={**os.environ, "SPRINGTIDE_OUTPUT_DIR": str(root)}, check=True)
    rows, is_own, model = pickle.loads((root / "result.pkl").read_bytes())
    print(rows, is_own, type(model) is Net, type(torch.load("model.pt", weights_only=False)) is Net)
"""


def test_a_model_of_a_notebook_is_saved_and_its_data_loaded_by_workers(tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    done = subprocess.run(
        [str(framework_tools.interpreter()), "notebook.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": sysconfig.get_paths()["purelib"]},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[8, 8, 8] True True True\n"
