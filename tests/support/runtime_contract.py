"""The agent's requirements on a container runtime: one list of checks, for the fake runtime and real ones.

async for check in CHECKS: await check(client, hands)       hands: actions of tests on the runtime behind the client
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import (
    CallTimeoutError,
    CriError,
    CriNotFoundError,
    RuntimeGoneError,
    UnsupportedCallError,
)
from pykruise.agent.cri.values import Auth, CriSandboxConfig
from pykruise.agent.image_puller import find_image
from pykruise.kube.values.image_references import parse_image

__all__ = ["CHECKS", "Hands"]

NO_POD: Final = CriSandboxConfig()


class Hands(Protocol):
    """Actions of a test on a runtime."""

    async def run_container(self, name: str, *, pod_uid: str, attempt: int = 0) -> str:
        """Run a container that sleeps in its own pod, and return its id."""
        ...

    async def publish(self, reference: str, *, user: str = "", takes_s: float = 0.0) -> str:
        """Let an image be pulled, with `user:password` if given; return its digest."""
        ...

    async def kill(self) -> None:
        """Kill the runtime."""
        ...

    async def restart(self) -> None:
        """Restart the runtime."""
        ...


async def refused(call: Awaitable[object], kind: type[CriError]) -> CriError:
    """The error of the call, which must be of this type."""
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"the call succeeded; expected {kind.__name__}")


async def check_it_says_who_it_is(client: CriClient, hands: Hands) -> None:
    runtime_version = await client.read_version()
    assert runtime_version.name
    assert runtime_version.api_version.startswith("v1") or runtime_version.api_version == "0.1.0"
    await client.check_images()


async def check_containers_are_listed_by_label_the_newest_first(client: CriClient, hands: Hands) -> None:
    first = await hands.run_container("app", pod_uid="uid-list")
    second = await hands.run_container("app", pod_uid="uid-list", attempt=1)
    await hands.run_container("app", pod_uid="uid-other")
    containers = await client.list_containers(labels={"io.kubernetes.pod.uid": "uid-list"})
    assert [container.id for container in containers] == [second, first]
    assert [container.restart_count for container in containers] == [1, 0]
    assert {container.name for container in containers} == {"app"}
    assert all(container.is_running for container in containers)
    assert await client.list_containers(labels={"io.kubernetes.pod.uid": "uid-of-no-pod"}) == []


async def check_a_container_says_since_when_it_runs(client: CriClient, hands: Hands) -> None:
    id_ = await hands.run_container("app", pod_uid="uid-status")
    status = await client.read_container_status(id_)
    assert (status.id, status.state) == (id_, "running")
    assert status.started_at > 0
    assert status.annotations["io.kubernetes.container.hash"]
    await refused(client.read_container_status("f" * 64), CriNotFoundError)


async def check_a_command_ends_with_its_code_and_output(client: CriClient, hands: Hands) -> None:
    id_ = await hands.run_container("app", pod_uid="uid-exec")
    result = await client.exec_sync(id_, ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=5.0)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")


async def check_a_command_that_takes_too_long_is_given_up(client: CriClient, hands: Hands) -> None:
    id_ = await hands.run_container("app", pod_uid="uid-long")
    await refused(client.exec_sync(id_, ["/bin/sleep", "30"], timeout_s=1.0), CallTimeoutError)


async def check_commands_in_containers_that_do_not_run_are_refused(client: CriClient, hands: Hands) -> None:
    await refused(client.exec_sync("f" * 64, ["true"], timeout_s=1.0), CriNotFoundError)
    id_ = await hands.run_container("app", pod_uid="uid-ended")
    await client.stop_container(id_, grace_s=2)
    await refused(client.exec_sync(id_, ["/bin/true"], timeout_s=1.0), CriError)


async def check_a_container_is_stopped_and_may_be_stopped_again(client: CriClient, hands: Hands) -> None:
    id_ = await hands.run_container("app", pod_uid="uid-stop")
    await client.stop_container(id_, grace_s=5)
    assert (await client.read_container_status(id_)).state == "exited"
    await client.stop_container(id_, grace_s=5)


async def check_an_image_is_pulled_by_tag_and_by_digest(client: CriClient, hands: Hands) -> None:
    reference = "registry.test/contract/plain:1"
    digest = await hands.publish(reference)
    id_ = await client.pull_image(reference, auth=None, sandbox=NO_POD, timeout_s=30.0)
    by_tag = find_image(await client.list_images(), parse_image(reference))
    assert by_tag is not None
    assert id_
    by_digest = f"registry.test/contract/plain@{digest}"
    await client.pull_image(by_digest, auth=None, sandbox=NO_POD, timeout_s=30.0)
    image = find_image(await client.list_images(), parse_image(by_digest))
    assert image is not None
    assert image.id == by_tag.id


async def check_an_image_that_is_not_there_cannot_be_pulled(client: CriClient, hands: Hands) -> None:
    call = client.pull_image("registry.test/missing/app:1", auth=None, sandbox=NO_POD, timeout_s=30.0)
    await refused(call, CriError)


async def check_a_private_image_needs_its_credentials(client: CriClient, hands: Hands) -> None:
    reference = "registry.test/private/app:1"
    await hands.publish(reference, user="me:secret")
    for auth in (None, Auth(username="me", password="wrong")):
        await refused(client.pull_image(reference, auth=auth, sandbox=NO_POD, timeout_s=30.0), CriError)
    right = Auth(username="me", password="secret")
    assert await client.pull_image(reference, auth=right, sandbox=NO_POD, timeout_s=30.0)


async def check_a_pull_that_takes_too_long_is_given_up(client: CriClient, hands: Hands) -> None:
    reference = "registry.test/slow/app:1"
    await hands.publish(reference, takes_s=20.0)
    await refused(client.pull_image(reference, auth=None, sandbox=NO_POD, timeout_s=1.0), CallTimeoutError)
    assert find_image(await client.list_images(), parse_image(reference)) is None


async def check_events_name_the_pod_or_there_are_none(client: CriClient, hands: Hands) -> None:
    about = asyncio.create_task(_first_about(client.watch_events(), "uid-events"))
    # It is not known when the runtime begins to send events.
    for attempt in range(20):
        await hands.run_container("app", pod_uid="uid-events", attempt=attempt)
        if (await asyncio.wait({about}, timeout=0.5))[0]:
            break
    try:
        async with asyncio.timeout(10.0):
            assert await about == "uid-events"
    except UnsupportedCallError:
        pass


async def _first_about(events, pod_uid: str) -> str:  # type: ignore[no-untyped-def]
    async for event in events:
        if event.pod_uid == pod_uid:
            return str(event.pod_uid)
    raise AssertionError("events ended")


async def check_a_runtime_that_dies_is_noticed_and_found_again(client: CriClient, hands: Hands) -> None:
    id_ = await hands.run_container("app", pod_uid="uid-gone")
    await hands.kill()
    await refused(client.read_version(), RuntimeGoneError)
    await hands.restart()
    assert (await client.read_version()).name
    assert [
        container.id
        for container in await client.list_containers(labels={"io.kubernetes.pod.uid": "uid-gone"})
    ] == [id_]


Check = Callable[[CriClient, Hands], Awaitable[None]]

CHECKS: Final[tuple[Check, ...]] = (
    check_it_says_who_it_is,
    check_containers_are_listed_by_label_the_newest_first,
    check_a_container_says_since_when_it_runs,
    check_a_command_ends_with_its_code_and_output,
    check_a_command_that_takes_too_long_is_given_up,
    check_commands_in_containers_that_do_not_run_are_refused,
    check_a_container_is_stopped_and_may_be_stopped_again,
    check_an_image_is_pulled_by_tag_and_by_digest,
    check_an_image_that_is_not_there_cannot_be_pulled,
    check_a_private_image_needs_its_credentials,
    check_a_pull_that_takes_too_long_is_given_up,
    check_events_name_the_pod_or_there_are_none,
    check_a_runtime_that_dies_is_noticed_and_found_again,
)
