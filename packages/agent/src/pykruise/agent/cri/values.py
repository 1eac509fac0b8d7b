"""Containers and images as a container runtime reports them, as frozen values.

protobuf messages ──▶ client.py ──▶ CriContainer, CriContainerStatus, Image, …

Times are seconds since 1970; client.py converts them from the runtime's nanoseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from pykruise.kube.clock import Instant

ContainerState = Literal["created", "running", "exited", "unknown"]

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
"""Labels that kubelets set on containers."""

CONTAINER_HASH: Final = "io.kubernetes.container.hash"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
"""Annotations that kubelets set on containers."""


class RuntimeVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The name and the versions of the runtime."""

    name: str
    """The scheme of the runtime's container ids: `containerd`, `cri-o` or `docker`."""
    version: str
    api_version: str


class CriContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container in the response to a list call."""

    id: str
    sandbox_id: str
    state: ContainerState
    created_at: Instant
    attempt: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        """Name of the container in the pod; empty for a container that no kubelet created."""
        return self.labels.get(CONTAINER_NAME, "")

    @property
    def pod_uid(self) -> str:
        """UID of the pod; empty for a container that the kubelet did not create."""
        return self.labels.get(POD_UID, "")

    @property
    def restart_count(self) -> int:
        """Restart count that the kubelet recorded; the runtime's own count if the kubelet recorded none."""
        text = self.annotations.get(RESTART_COUNT, "")
        return int(text) if text.isdecimal() else self.attempt

    @property
    def is_running(self) -> bool:
        return self.state == "running"


class CriContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Full status of one container."""

    id: str
    state: ContainerState
    created_at: Instant
    started_at: Instant
    """0 if the container was never started."""
    finished_at: Instant
    """0 if the container has not ended yet."""
    exit_code: int
    reason: str
    message: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class SandboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as the runtime knows it. `ip` is empty for pods in the host's network."""

    id: str
    pod_uid: str
    ip: str
    is_in_host_network: bool = False


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    """Exit code and output of a command in a container."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image on the node."""

    id: str
    tags: Sequence[str]
    """`docker.io/library/nginx:1.9`."""
    digests: Sequence[str]
    """`docker.io/library/nginx@sha256:…`."""


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials for a registry."""

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""


class CriSandboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the pod that needs the image. The runtime receives them in the pull request."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class ContainerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A container or a sandbox was created, started, stopped or deleted."""

    id: str
    pod_uid: str
    """Empty when the runtime does not report the pod's UID."""
    at: Instant
