"""What an attempt gets of what admins declare for its project, as it is when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.refusal import Refusal


async def test_an_attempt_knows_the_projects_around_its_own_and_its_secrets(
    make_pool: Any, tmp_path: Path
) -> None:
    (tmp_path / "wandb.env").write_text("WANDB_API_KEY=secret\n")
    token = NamedSecret("wandb", file=str(tmp_path / "wandb.env"), projects=("lab",))
    projects = {"lab": {"quota": 8}, "vision": {"quota": 8, "parent": "lab"}}
    pool = await make_pool(settings=EngineSettings(secrets={"wandb": token}), projects=projects)
    job = await pool.submit("susan", "vision", secrets=["wandb"])
    await pool.state(job.id, "running")
    spec = pool.executor.specs[pool.key(job.id)]
    assert (spec.outer_projects, spec.secrets) == (("lab",), (token,))
    assert "wandb.env" not in msgspec.json.encode(await pool.engine.job(job.id)).decode()
    with pytest.raises(Refusal, match="There is no secret “hf”"):
        await pool.submit("susan", "vision", secrets=["hf"])
