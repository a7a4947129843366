"""Objects of the cluster, as far as they matter to us."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Shape(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an object; the rest is skipped."""


class Meta(Shape, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Condition(Shape, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Waiting(Shape, frozen=True):
    reason: str = ""
    message: str = ""


class Running(Shape, frozen=True):
    started_at: datetime | None = None


class Terminated(Shape, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Shape, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class Container(Shape, frozen=True):
    state: ContainerState = ContainerState()


class PodStatus(Shape, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[Container, ...] = ()


class Resources(Shape, frozen=True):
    requests: dict[str, str | int | float] = {}


class Asking(Shape, frozen=True):
    resources: Resources = Resources()


class PodSpec(Shape, frozen=True):
    node_name: str = ""
    containers: tuple[Asking, ...] = ()


class Pod(Shape, frozen=True):
    """A pod; of ours and of others."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def state(self) -> ContainerState:
        """The state of its one container."""
        return self.status.container_statuses[0].state if self.status.container_statuses else ContainerState()

    @property
    def ended(self) -> bool:
        """Whether its containers are proven to have ended, or can never have begun."""
        never = self.metadata.deletion_timestamp is not None and not self.spec.node_name
        return never or self.status.phase in ("Succeeded", "Failed")

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type."""
        return next((each for each in self.status.conditions if each.type == kind), None)


class Taint(Shape, frozen=True):
    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(Shape, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Shape, frozen=True):
    type: str
    status: str
    last_transition_time: datetime | None = None


class NodeStatus(Shape, frozen=True):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()


class ClusterNode(Shape, frozen=True):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Claim(Shape, frozen=True):
    """A claim of storage."""

    metadata: Meta = Meta()
