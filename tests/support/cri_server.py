"""A FakeRuntime behind a unix socket, like a container runtime.

CriClient ──gRPC──▶ CriServer ──▶ FakeRuntime
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpclib.const
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from pykruise.agent.cri.errors import (
    CallTimeoutError,
    CriError,
    CriNotFoundError,
    RuntimeGoneError,
    UnsupportedCallError,
)
from pykruise.agent.cri.values import Auth, CriSandboxConfig
from support.cri_messages import METHODS, message
from support.fake_runtime import FakeRuntime

__all__ = ["serving"]

_STATES: Final = ("created", "running", "exited", "unknown")
_STATUS: Final = {
    CriNotFoundError: Status.NOT_FOUND,
    UnsupportedCallError: Status.UNIMPLEMENTED,
    CallTimeoutError: Status.DEADLINE_EXCEEDED,
    RuntimeGoneError: Status.UNAVAILABLE,
}
_NANO: Final = 1e9
_MOST_OUTPUT: Final = 16_000_000
"""Bytes of output that a container runtime passes on."""


@asynccontextmanager
async def serving(runtime: FakeRuntime, socket: Path) -> AsyncIterator[None]:
    """Serve the runtime at this socket."""
    server = Server([_Calls(runtime)])
    await server.start(path=str(socket))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.to_thread(socket.unlink, missing_ok=True)


class _Calls:
    """A handler for each call, as grpclib requires; calls that the fake does not have respond with UNIMPLEMENTED."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        kinds = grpclib.const.Cardinality
        return {
            method.path: grpclib.const.Handler(
                self._answer(name),
                kinds.UNARY_STREAM if method.is_stream else kinds.UNARY_UNARY,
                message(method.takes),
                message(method.gives),
            )
            for name, method in METHODS.items()
        }

    def _answer(self, name: str) -> Callable[[Any], Awaitable[None]]:
        result = getattr(self, re.sub(r"(?=[A-Z])", "_", name).lower(), None)

        async def answer(stream: Any) -> None:
            asked = await stream.recv_message()
            if result is None:
                raise GRPCError(Status.UNIMPLEMENTED, f"method {name} not implemented")
            try:
                if METHODS[name].is_stream:
                    await result(stream)
                else:
                    await stream.send_message(await result(asked))
            except CriError as error:
                raise GRPCError(_STATUS.get(type(error), Status.UNKNOWN), str(error)) from error

        return answer

    async def _version(self, _: Any) -> Any:
        runtime_version = await self._runtime.read_version()
        return message("VersionResponse")(
            version="0.1.0",
            runtime_name=runtime_version.name,
            runtime_version=runtime_version.version,
            runtime_api_version=runtime_version.api_version,
        )

    async def _image_fs_info(self, _: Any) -> Any:
        await self._runtime.check_images()
        return message("ImageFsInfoResponse")()

    async def _get_container_events(self, stream: Any) -> None:
        async for event in self._runtime.watch_events():
            answer = message("ContainerEventResponse")(
                container_id=event.id, created_at=int(event.at * _NANO)
            )
            answer.pod_sandbox_status.metadata.uid = event.pod_uid
            await stream.send_message(answer)

    async def _list_containers(self, asked: Any) -> Any:
        answer = message("ListContainersResponse")()
        for container in await self._runtime.list_containers(labels=dict(asked.filter.label_selector)):
            answer.containers.add(
                id=container.id,
                pod_sandbox_id=container.sandbox_id,
                state=_STATES.index(container.state),
                created_at=int(container.created_at * _NANO),
                labels=dict(container.labels),
                annotations=dict(container.annotations),
                metadata={"name": container.name, "attempt": container.attempt},
            )
        return answer

    async def _container_status(self, asked: Any) -> Any:
        status = await self._runtime.read_container_status(asked.container_id)
        return message("ContainerStatusResponse")(
            status={
                "id": status.id,
                "state": _STATES.index(status.state),
                "created_at": int(status.created_at * _NANO),
                "started_at": int(status.started_at * _NANO),
                "labels": dict(status.labels),
                "annotations": dict(status.annotations),
            }
        )

    async def _pod_sandbox_status(self, asked: Any) -> Any:
        sandbox_status = await self._runtime.read_sandbox_status(asked.pod_sandbox_id)
        return message("PodSandboxStatusResponse")(
            status={
                "id": sandbox_status.id,
                "metadata": {"uid": sandbox_status.pod_uid},
                "network": {"ip": sandbox_status.ip},
                "linux": {
                    "namespaces": {"options": {"network": 2 if sandbox_status.is_in_host_network else 0}}
                },
            }
        )

    async def _exec_sync(self, asked: Any) -> Any:
        result = await self._runtime.exec_sync(
            asked.container_id, tuple(asked.cmd), timeout_s=asked.timeout, most_output=_MOST_OUTPUT
        )
        return message("ExecSyncResponse")(
            stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code
        )

    async def _stop_container(self, asked: Any) -> Any:
        await self._runtime.stop_container(asked.container_id, grace_s=asked.timeout)
        return message("StopContainerResponse")()

    async def _list_images(self, _: Any) -> Any:
        answer = message("ListImagesResponse")()
        for image in await self._runtime.list_images():
            answer.images.add(id=image.id, repo_tags=list(image.tags), repo_digests=list(image.digests))
        return answer

    async def _pull_image(self, asked: Any) -> Any:
        auth = None
        if asked.HasField("auth"):
            auth = Auth(username=asked.auth.username, password=asked.auth.password)
        sandbox = CriSandboxConfig(
            labels=dict(asked.sandbox_config.labels), annotations=dict(asked.sandbox_config.annotations)
        )
        id_ = await self._runtime.pull_image(asked.image.image, auth=auth, sandbox=sandbox, timeout_s=3600.0)
        return message("PullImageResponse")(image_ref=id_)
