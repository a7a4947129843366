"""Acceptance of project trees; pure."""

from __future__ import annotations

from springtide.scheduler import wire, wording
from springtide.scheduler.project_tree import (
    PLACE,
    TreeError,
    digest_of,
    is_plain_path,
    outside_place,
    read_manifest,
)
from springtide.scheduler.refusal import Refusal, invalid_field


def check_tree(digest: str, packed: bytes) -> None:
    """Raise `Refusal` unless these are the packed files of a project with this digest."""
    if digest_of(packed) != digest:
        raise Refusal(
            422, "digest", "The project's files are not those of this digest: a part is missing or changed."
        )
    try:
        read_manifest(packed)
    except TreeError as error:
        raise Refusal(422, "tree", str(error)) from None


def checked_tree(submission: wire.Submission) -> wire.ProjectTree | None:
    """Return the project tree of a submission. Raises `Refusal` for one that no job can have."""
    tree = submission.tree
    if tree is None:
        if any(PLACE in text for text in (*submission.argv, *submission.env.values())):
            raise invalid_field(
                "tree", f"The command uses {PLACE}, but no project was sent.", "Send its tree first."
            )
        return None
    if not tree.root.startswith("/") or (tree.root == "/" and tree.digest is None):
        raise invalid_field("tree", f"The project folder {wording.given(tree.root)} is not an absolute path.")
    for folder in tree.outside:
        if not (folder.startswith("/") and is_plain_path(outside_place(folder))):
            raise invalid_field("tree", f"The folder {wording.given(folder)} is not an absolute path.")
    inside = (text for each in tree.submodules for text in (each.path, each.git))
    for text in (tree.root, *tree.outside, tree.git, *inside, *tree.files, *tree.linked, *tree.ignored):
        if not wording.is_printable(text):
            raise invalid_field(
                "tree",
                f"The project names {wording.given(text, wire.MAX_NAME)}, which has control characters.",
                "Rename it, or leave it out of the lists.",
            )
    return tree


def unknown_tree(digest: str) -> Refusal:
    """Return the refusal of a tree that its user has not sent."""
    return Refusal(
        404,
        "unknown_tree",
        f"You have sent no project tree {digest[:12]}, or it is not kept any more.",
        field="tree",
        hint="Send it, then submit again.",
    )
