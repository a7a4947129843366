"""Volumes and mounts of datasets in pods, as objects of the API; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from springtide.scheduler.datasets.dataset import Dataset


def volumes(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return a read-only volume for each claim that holds datasets.

    As the volume itself is read-only, no node changes the owner of its files to the group of the pod.
    """
    return [
        {"name": _volume(claim, datasets), "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        for claim in _claims(datasets)
    ]


def mounts(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return the read-only mount of each dataset, at its place."""
    return [
        {
            "name": _volume(dataset.claim, datasets),
            "mountPath": dataset.place,
            "readOnly": True,
            **({"subPath": dataset.sub_path} if dataset.sub_path else {}),
        }
        for dataset in datasets
    ]


def _claims(datasets: Sequence[Dataset]) -> list[str]:
    return list(dict.fromkeys(dataset.claim for dataset in datasets))


def _volume(claim: str, datasets: Sequence[Dataset]) -> str:
    return f"datasets-{_claims(datasets).index(claim)}"
