"""The containers of a pod in this node's runtimes, and the way to stop one of them.

pod's uid ──▶ list_newest_containers(): the newest of each name      stop(): preStop hook, then StopContainer

This is the rule of the kubelet: the time of the hook is subtracted from the grace period, but the container gets at
least two seconds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.agent.cri.runtimes import Runtime
from pykruise.agent.cri.values import POD_UID, CriContainer
from pykruise.agent.hooks import HookError, run_pre_stop
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.resources import PODS

LEAST_GRACE_S: Final = 2
LOOPBACK: Final = "127.0.0.1"


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


async def list_newest_containers(client: CriClient, pod_uid: str) -> dict[str, CriContainer]:
    """Return the newest container of each name. Raises CriError."""
    containers: dict[str, CriContainer] = {}
    for container in await client.list_containers(labels={POD_UID: pod_uid}):
        containers.setdefault(container.name, container)
    return containers


def build_scheme_id(runtime: Runtime, container: CriContainer) -> str:
    """Return the container's id as pods write it: `containerd://<id>`."""
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
    """Return the pod's address as the runtime reports it; empty if there is none. For a pod in the host's network,
    return the loopback address: the agent is in the same network.
    """
    try:
        status = await client.read_sandbox_status(container.sandbox_id)
    except CriError:
        return ""
    return status.ip or (LOOPBACK if status.is_in_host_network else "")
