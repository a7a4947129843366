"""The example notebook of `springtide up`, opened in JupyterLab."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from benches.lab_bench import PANEL, Lab
from playwright.sync_api import BrowserContext

from springtide.hub_extension.local_hub.examples import FIRST_NOTEBOOK, give_examples

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

OPENED = f"""async () => {{
    const panel = {PANEL};
    const kernel = panel.sessionContext.session.kernel;
    const [info, spec] = await Promise.all([kernel.info, kernel.spec]);
    await new Promise((done) => setTimeout(done, 0));
    const written = panel.model.getMetadata("language_info").version === info.language_info.version;
    return [written, panel.model.getMetadata("kernelspec").display_name === spec.display_name, panel.model.dirty];
}}"""
"""Whether the notebook has the metadata of its kernel, and whether it counts as changed."""


class Account:
    """What `give_examples` needs of a spawner, for one home directory."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        return {**env, "HOME": str(self.home)}

    def run_as_user(self, command: Sequence[str]) -> None:
        subprocess.run(command, cwd=self.home, check=True, capture_output=True)


def test_the_example_is_unchanged_when_it_was_only_opened(lab: Lab, context: BrowserContext) -> None:
    give_examples(Account(lab.root))
    tab = lab.open(context, FIRST_NOTEBOOK)
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    assert tab.evaluate(OPENED) == [True, True, False]
