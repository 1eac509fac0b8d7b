"""The containers of a pod in this node's runtimes, and the way to stop one of them.

pod ──▶ list_newest_containers(): the newest of each name      stop(): preStop hook, then StopContainer

As in the kubelet, the time of the hook is subtracted from the grace period, but the container gets at least two
seconds.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.agent.cri.runtimes import Runtime
from pykruise.agent.cri.values import POD_NAME, POD_NAMESPACE, POD_UID, CriContainer
from pykruise.agent.hooks import HookError, run_pre_stop
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.resources import PODS

LEAST_GRACE_S: Final = 2
LOOPBACK: Final = "127.0.0.1"
_STATIC_UID: Final = re.compile("[0-9a-f]{32}")
"""UID of a static pod: a hash of its manifest, without hyphens."""


class PodRef(msgspec.Struct, frozen=True, kw_only=True):
    """The pod of a container. `ip` is empty when it is not known."""

    namespace: str
    name: str
    uid: str
    ip: str = ""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which a container is stopped."""

    grace_s: int
    pre_stop: Mapping[str, Any] | None = None
    ports: Sequence[Mapping[str, Any]] = ()
    because: str = ""


async def list_newest_containers(client: CriClient, pod: PodRef) -> dict[str, CriContainer]:
    """Return the newest container of each name in the pod. Raises CriError."""
    containers: dict[str, CriContainer] = {}
    for container in await list_containers_of(client, pod):
        containers.setdefault(container.name, container)
    return containers


async def list_containers_of(
    client: CriClient, pod: PodRef, *, labels: Mapping[str, str] = {}
) -> list[CriContainer]:
    """Return those containers of a pod that have these labels, newest first. Raises CriError.

    The API server has a mirror pod for each static pod. In the runtime, the containers of a static pod have the UID of
    the static pod, which is a hash, and not the UID of the mirror pod.
    """
    containers = await client.list_containers(labels={**labels, POD_UID: pod.uid})
    if containers:
        return containers
    named = {**labels, POD_NAMESPACE: pod.namespace, POD_NAME: pod.name}
    return [
        container
        for container in await client.list_containers(labels=named)
        if _STATIC_UID.fullmatch(container.pod_uid)
    ]


def build_scheme_id(runtime: Runtime, container: CriContainer) -> str:
    """Return the container's id as the status of a pod contains it: `containerd://<id>`."""
    return f"{runtime.name}://{container.id}"


async def stop(
    client: CriClient,
    container: CriContainer,
    pod: PodRef,
    how: Stop,
    *,
    recorder: EventRecorder,
) -> None:
    """Stop the container and wait until it has ended. If the hook fails, record an event and stop the container anyway.

    Raises CriError.
    """

    def tell(reason: str, message: str, *, warning: bool = False) -> None:
        recorder.record(
            PODS,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            reason=reason,
            message=message,
            warning=warning,
        )

    tell("Killing", f"stopping container {container.name}{how.because and f': {how.because}'}")
    grace_s = how.grace_s
    if how.pre_stop and grace_s > 0:
        began = asyncio.get_running_loop().time()
        try:
            await run_pre_stop(
                client,
                container.id,
                how.pre_stop,
                ports=how.ports,
                ip=pod.ip or await _read_ip(client, container),
                timeout_s=float(grace_s),
            )
        except HookError as error:
            tell(
                "FailedPreStopHook",
                f"the preStop hook of container {container.name} failed: {error}",
                warning=True,
            )
        grace_s -= round(asyncio.get_running_loop().time() - began)
    await client.stop_container(container.id, grace_s=max(grace_s, LEAST_GRACE_S))


async def _read_ip(client: CriClient, container: CriContainer) -> str:
    """Return the pod's address as the runtime reports it; empty if there is none.

    For a pod in the host's network, return the loopback address: the agent is in the same network.
    """
    try:
        status = await client.read_sandbox_status(container.sandbox_id)
    except CriError:
        return ""
    return status.ip or (LOOPBACK if status.is_in_host_network else "")
