"""Stores as earlier versions wrote them."""

from __future__ import annotations

import json
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from springtide.scheduler.store.opening import MIGRATIONS, parse_url


def write_earlier(url: str, revision: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Make a store of an earlier schema that has these rows."""
    engine = create_engine(parse_url(url))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for table, of_table in rows.items():
            for row in of_table:
                columns = ", ".join(f'"{name}"' for name in row)
                values = ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({columns}) VALUES ({values})"), row)
    engine.dispose()


def project_row(name: str, age: int, **body: Any) -> dict[str, Any]:
    given = {"name": name, "parent": None, "weight": 1.0, "priority": 100, "age": age, **body}
    row = {"name": name, "age": age, "colour": age, "version": 3, "made_group": False}
    return {**row, "body": json.dumps(given)}


EARLIER: dict[str, list[dict[str, Any]]] = {
    "meta": [{"key": "epoch", "value": 7}, {"key": "next_age", "value": 2}],
    "projects": [
        project_row("vision", 0, quota=4, limit=6, build_quota=1),
        project_row("speech", 1, quota=None, limit=None, build_quota=0),
    ],
    "people": [{"name": "susan", "build_quota": 2}, {"name": "joe", "build_quota": 0}],
    "workspaces": [{"user": "susan", "server": "", "node": "build", "gpus": "[0, 1]", "since": 5.0}],
}
