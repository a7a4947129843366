"""The fields of API objects that the executor reads; decoding skips the others."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from springtide.scheduler.executors.kubernetes.objects.names import CONTAINER


class ApiType(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an API object, named as in the API's reference."""


class ObjectMeta(ApiType, frozen=True):
    """Metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class PodCondition(ApiType, frozen=True):
    """A condition of a pod, such as `DisruptionTarget`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStateWaiting(ApiType, frozen=True):
    """The state of a container before its start."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(ApiType, frozen=True):
    """The state of a running container."""

    started_at: datetime | None = None


class ContainerStateTerminated(ApiType, frozen=True):
    """The state of an ended container."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(ApiType, frozen=True):
    """The state of a container, of which one part is set."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(ApiType, frozen=True):
    """The status of one container; ``container_id`` is empty until it has been created."""

    state: ContainerState = ContainerState()
    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class PodResourceClaim(ApiType, frozen=True):
    """A ResourceClaim that a pod uses, by the name that its containers have for it."""

    name: str = ""


class PodStatus(ApiType, frozen=True):
    """The status of a pod; ``nominated_node_name`` is the node on which GPUs are being freed for it.

    Its ``resource_claim_statuses`` are of the claims that the cluster has made.
    """

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaim, ...] = ()


class ResourceRequirements(ApiType, frozen=True):
    """The resources of a container."""

    requests: dict[str, str | int | float] = {}


class Container(ApiType, frozen=True):
    """A container in the specification of a pod; an init container that is restarted always is a sidecar."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    resources: ResourceRequirements = ResourceRequirements()


class PodSpec(ApiType, frozen=True):
    """The specification of a pod."""

    node_name: str = ""
    priority_class_name: str = ""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class Pod(ApiType, frozen=True):
    """A pod, of a job or of anything else."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def main(self) -> ContainerStatus:
        """The status of the container that runs the job, or of the first one; webhooks may have added others."""
        statuses = self.status.container_statuses
        return next((each for each in statuses if each.name == CONTAINER), next(iter(statuses), ContainerStatus()))

    @property
    def state(self) -> ContainerState:
        """The state of the container that runs the job."""
        return self.main.state

    @property
    def image(self) -> str:
        """The image of the container that runs the job, or of the first one; empty if there is none."""
        containers = self.spec.containers
        first = next(iter(containers), Container())
        return next((each.image for each in containers if each.name == CONTAINER), first.image)

    @property
    def acknowledged(self) -> bool:
        """Whether its kubelet has begun with it, or will never have to."""
        return self.status.start_time is not None or self.ended

    @property
    def outlived(self) -> bool:
        """Whether the container that runs the job has ended, and others that a webhook has added run on."""
        others = len(self.status.container_statuses) > 1
        return others and not self.ended and self.state.terminated is not None

    @property
    def ended(self) -> bool:
        """Whether its containers are proven to have ended, or can never start because it was deleted unbound."""
        deleted_unbound = self.metadata.deletion_timestamp is not None and not self.spec.node_name
        return deleted_unbound or self.status.phase in ("Succeeded", "Failed")

    def condition(self, kind: str) -> PodCondition | None:
        """Return the condition of this type, None if there is none."""
        return next((condition for condition in self.status.conditions if condition.type == kind), None)


class Taint(ApiType, frozen=True):
    """A taint of a node."""

    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(ApiType, frozen=True):
    """The specification of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(ApiType, frozen=True):
    """A condition of a node, such as `Ready`."""

    type: str
    status: str
    last_transition_time: datetime | None = None


class NodeStatus(ApiType, frozen=True):
    """The status of a node."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()


class ClusterNode(ApiType, frozen=True):
    """A node of the cluster; `model.Node` is the planner's view of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class VolumeClaimSpec(ApiType, frozen=True):
    """What a PersistentVolumeClaim asks for."""

    access_modes: tuple[str, ...] = ()


class VolumeClaimStatus(ApiType, frozen=True):
    """The status of a PersistentVolumeClaim; the access modes are those of its volume, none without one."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()


class VolumeClaim(ApiType, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()

    @property
    def access_modes(self) -> tuple[str, ...]:
        """The access modes of its volume; those that it asks for while it has none."""
        return self.status.access_modes or self.spec.access_modes


class DeviceAttribute(ApiType, frozen=True):
    """An attribute of a device that is a text; those of other kinds are empty."""

    string: str = ""


class DeviceCapacity(ApiType, frozen=True):
    """A capacity of a device."""

    value: str | int | float = 0


class Device(ApiType, frozen=True):
    """A device that a driver for dynamic resource allocation publishes."""

    name: str
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    taints: tuple[Taint, ...] = ()
    consumes_counters: tuple[dict[str, Any], ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(ApiType, frozen=True):
    """The pool that a slice is part of; a consumer uses the slices of the newest generation only."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(ApiType, frozen=True):
    """The specification of a slice; ``node_name`` is empty for devices that several nodes reach."""

    driver: str
    pool: ResourcePool
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class ResourceSlice(ApiType, frozen=True):
    """A part of the devices of one driver."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec


class AllocatedDevice(ApiType, frozen=True):
    """A device that a claim has; with ``admin_access`` it is only watched, and others may have it."""

    driver: str
    pool: str
    device: str
    admin_access: bool = False


class DeviceAllocation(ApiType, frozen=True):
    """The devices that a claim has."""

    results: tuple[AllocatedDevice, ...] = ()


class ClaimAllocation(ApiType, frozen=True):
    """What a claim was allocated."""

    devices: DeviceAllocation = DeviceAllocation()


class ClaimConsumer(ApiType, frozen=True):
    """An object that uses a claim, most often a pod of its namespace."""

    resource: str
    name: str


class ResourceClaimStatus(ApiType, frozen=True):
    """The status of a claim; without an allocation it has no devices."""

    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(ApiType, frozen=True):
    """A claim of devices."""

    metadata: ObjectMeta = ObjectMeta()
    status: ResourceClaimStatus = ResourceClaimStatus()
