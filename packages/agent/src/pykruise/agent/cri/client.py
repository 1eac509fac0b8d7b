"""Calls to one container runtime over its unix socket.

image puller, recreation, probes, metadata ──▶ CriClient ──gRPC──▶ containerd, CRI-O, cri-dockerd
                                           ◀── values.py, or an error of errors.py

Every call has a time limit. After a broken connection the next call opens a new one, so a restarted runtime is found
immediately; no call is repeated here.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from pykruise.agent.cri.errors import (
    CallRefusedError,
    CallTimeoutError,
    CriError,
    CriNotFoundError,
    RuntimeGoneError,
    UnsupportedCallError,
)
from pykruise.agent.cri.protocol import load_message_class, make_unary_call, stream_call
from pykruise.agent.cri.shortened import LONGEST_FIELD, Shortened
from pykruise.agent.cri.values import (
    Auth,
    ContainerEvent,
    ContainerState,
    CriContainer,
    CriContainerStatus,
    CriSandboxConfig,
    ExecResult,
    Image,
    RuntimeVersion,
    SandboxStatus,
)

CALL_S: Final = 5.0
"""Time limit of a call in seconds, in addition to the time that the call itself waits. Same value as in OpenKruise's
agent.
"""
FIRST_IMAGES_S: Final = 10.0
"""Time limit of calls for which the runtime may first have to count the node's images."""

_STATES: Final[tuple[ContainerState, ...]] = ("created", "running", "exited", "unknown")
_NODE: Final = 2
"""NamespaceMode of containers that use the namespace of the node."""
_NANO: Final = 1e9


class CriClient:
    """Client of one runtime, for use in one event loop. Call `close()` at the end."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._channel = Channel(path=socket)

    def close(self) -> None:
        """Close the connection. Calls in flight fail."""
        self._channel.close()

    # ── the runtime ──────────────────────────────────────────────────────────

    async def read_version(self) -> RuntimeVersion:
        """Return the name and the versions of the runtime."""
        result = await self._call("RuntimeService", "Version", {"version": "v1"})
        return RuntimeVersion(
            name=result.runtime_name, version=result.runtime_version, api_version=result.runtime_api_version
        )

    async def check_images(self) -> None:
        """Check that the runtime has an image service of CRI v1. Raises CriError."""
        await self._call("ImageService", "ImageFsInfo", {}, timeout_s=FIRST_IMAGES_S)

    async def watch_events(self) -> AsyncIterator[ContainerEvent]:
        """Yield the events of containers from now on, and possibly some recent events.

        Raises UnsupportedCallError if the runtime sends no events, RuntimeGoneError when the runtime stops.
        """
        method = stream_call(
            self._channel,
            "RuntimeService",
            "GetContainerEvents",
            takes="GetEventsRequest",
            gives="ContainerEventResponse",
        )
        try:
            async with method.open() as stream:
                await stream.send_message(method.request_type(), end=True)
                async for item in stream:
                    yield ContainerEvent(
                        id=item.container_id,
                        pod_uid=item.pod_sandbox_status.metadata.uid,
                        at=item.created_at / _NANO,
                    )
        except Exception as error:
            raise _convert_error(error, "GetContainerEvents") from error
        raise RuntimeGoneError(f"{self.socket}: the container runtime closed its event stream")

    # ── containers ───────────────────────────────────────────────────────────

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> list[CriContainer]:
        """Return the containers that have these labels, in any state, newest first."""
        asked = {"filter": {"label_selector": dict(labels)}} if labels else {}
        answer = await self._call("RuntimeService", "ListContainers", asked)
        containers = [_to_container(container) for container in answer.containers]
        return sorted(containers, key=lambda container: -container.created_at)

    async def read_container_status(self, container_id: str) -> CriContainerStatus:
        """Return the status of one container. Raises CriNotFoundError."""
        answer = await self._call("RuntimeService", "ContainerStatus", {"container_id": container_id})
        item = answer.status
        return CriContainerStatus(
            id=item.id,
            state=_STATES[item.state],
            created_at=item.created_at / _NANO,
            started_at=item.started_at / _NANO,
            finished_at=item.finished_at / _NANO,
            exit_code=item.exit_code,
            reason=item.reason,
            message=item.message,
            labels=dict(item.labels),
            annotations=dict(item.annotations),
        )

    async def read_sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """Return the status of one pod sandbox. Raises CriNotFoundError."""
        answer = await self._call("RuntimeService", "PodSandboxStatus", {"pod_sandbox_id": sandbox_id})
        item = answer.status
        return SandboxStatus(
            id=item.id,
            pod_uid=item.metadata.uid,
            ip=item.network.ip,
            is_in_host_network=item.linux.namespaces.options.network == _NODE,
        )

    async def exec_sync(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        timeout_s: float,
        most_output: int = LONGEST_FIELD,
    ) -> ExecResult:
        """Run a command in a container until it ends. The first `most_output` bytes of each output are kept.

        Raises CallTimeoutError when the command runs longer than `timeout_s`, CriNotFoundError when the container does
        not exist, and CallRefusedError when the command cannot be started.
        """
        whole_s = max(1, math.ceil(timeout_s))
        asked = {"container_id": container_id, "cmd": list(command), "timeout": whole_s}
        async with _limit_time(timeout_s, "ExecSync"):
            answer = await self._call_shortened(
                "RuntimeService", "ExecSync", asked, timeout_s=whole_s + CALL_S, longest=most_output
            )
        return ExecResult(exit_code=answer.exit_code, stdout=answer.stdout, stderr=answer.stderr)

    async def stop_container(self, container_id: str, *, grace_s: int) -> None:
        """Stop a container with the stop signal of its image, and with SIGKILL after `grace_s`. Returns when it has
        ended.

        Does nothing if the container has ended or does not exist.
        """
        asked = {"container_id": container_id, "timeout": grace_s}
        await self._call("RuntimeService", "StopContainer", asked, timeout_s=grace_s + CALL_S)

    # ── images ───────────────────────────────────────────────────────────────

    async def list_images(self) -> list[Image]:
        """Return all images of the node."""
        answer = await self._call("ImageService", "ListImages", {}, timeout_s=FIRST_IMAGES_S)
        return [
            Image(id=image.id, tags=tuple(image.repo_tags), digests=tuple(image.repo_digests))
            for image in answer.images
        ]

    async def pull_image(
        self, reference: str, *, auth: Auth | None, sandbox: CriSandboxConfig, timeout_s: float
    ) -> str:
        """Pull an image and return its id in the runtime. After a cancellation or a timeout, the runtime also stops
        the pull.
        """
        asked: dict[str, Any] = {
            "image": {"image": reference, "annotations": dict(sandbox.annotations)},
            # Some runtimes crash without a sandbox configuration.
            "sandbox_config": {
                "metadata": {},
                "labels": dict(sandbox.labels),
                "annotations": dict(sandbox.annotations),
            },
        }
        if auth is not None:
            asked["auth"] = {
                "username": auth.username,
                "password": auth.password,
                "identity_token": auth.identity_token,
                "registry_token": auth.registry_token,
            }
        answer = await self._call("ImageService", "PullImage", asked, timeout_s=timeout_s)
        return str(answer.image_ref)

    # ── the call itself ──────────────────────────────────────────────────────

    async def _call(
        self, service: str, name: str, asked: Mapping[str, Any], *, timeout_s: float = CALL_S
    ) -> Any:
        method = make_unary_call(self._channel, service, name)
        try:
            return await method(load_message_class(f"{name}Request")(**asked), timeout=timeout_s)
        except Exception as error:
            raise _convert_error(error, name, socket=self.socket, timeout_s=timeout_s) from error

    async def _call_shortened(
        self, service: str, name: str, asked: Mapping[str, Any], *, timeout_s: float, longest: int
    ) -> Any:
        """Call like `_call`, but keep only the first `longest` bytes of each field of the response."""
        method = make_unary_call(self._channel, service, name)
        try:
            async with method.open(timeout=timeout_s) as stream:
                await stream.send_message(load_message_class(f"{name}Request")(**asked), end=True)
                # grpclib has no public interface for this.
                stream._stream = Shortened(stream._stream, longest=longest)  # type: ignore[assignment]
                answer = await stream.recv_message()
            if answer is None:
                raise ProtocolError("no response")
            return answer
        except Exception as error:
            raise _convert_error(error, name, socket=self.socket, timeout_s=timeout_s) from error


@asynccontextmanager
async def _limit_time(timeout_s: float, name: str) -> AsyncIterator[None]:
    """Limit the time of a call in the agent, because an ExecSyncRequest can state only whole seconds."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise CallTimeoutError(f"{name}: did not end within {timeout_s:g} s") from error


_BY_STATUS: Final[Mapping[Status, type[CriError]]] = {
    Status.NOT_FOUND: CriNotFoundError,
    Status.UNIMPLEMENTED: UnsupportedCallError,
    Status.UNAVAILABLE: RuntimeGoneError,
    Status.DEADLINE_EXCEEDED: CallTimeoutError,
}


def _convert_error(error: Exception, name: str, *, socket: str = "", timeout_s: float = 0.0) -> CriError:
    match error:
        case CriError():
            return error
        case GRPCError():
            return _BY_STATUS.get(error.status, CallRefusedError)(error.message or error.status.name)
        case TimeoutError():
            return CallTimeoutError(f"{name}: no response within {timeout_s:g} s")
        case OSError() | StreamTerminatedError() | ProtocolError() | ValueError():
            return RuntimeGoneError(f"{socket}: {error}".removeprefix(": "))
        case _:
            raise error


def _to_container(item: Any) -> CriContainer:
    return CriContainer(
        id=item.id,
        sandbox_id=item.pod_sandbox_id,
        state=_STATES[item.state],
        created_at=item.created_at / _NANO,
        attempt=item.metadata.attempt,
        labels=dict(item.labels),
        annotations=dict(item.annotations),
    )
