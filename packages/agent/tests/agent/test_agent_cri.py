"""Calls to container runtimes: the reduced protocol, and the contract tests with the fake runtime behind a socket."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.agent.cri.changes import RuntimeChanges
from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CallRefusedError
from pykruise.agent.cri.protocol import load_message_class
from pykruise.agent.cri.runtimes import Runtime, find_runtimes, list_socket_paths, splits_events
from pykruise.agent.cri.shortened import LONGEST_FIELD, Shortened
from pykruise.agent.cri.values import ExecResult, RuntimeVersion
from pykruise.kube.clock import read_system_clock
from pykruise.kube.errors import ConfigurationError
from pykruise.kube.values.image_references import parse_image
from support.cri_messages import whole_protocol
from support.cri_server import serving
from support.fake_runtime import FakeRuntime, Remote
from support.runtime_contract import CHECKS, Check
from tools.cri_messages import DATA, descriptors_of, part_of


def test_the_shipped_cri_protocol_equals_that_part_of_the_whole_protocol() -> None:
    part = part_of(whole_protocol())
    assert (DATA / "cri.proto").read_text() == part
    assert (DATA / "cri.binpb").read_bytes() == descriptors_of(part)


def test_a_protocol_without_what_the_agent_needs_is_refused() -> None:
    with pytest.raises(ValueError, match="has no ExecSyncRequest"):
        part_of(whole_protocol().replace("message ExecSyncRequest", "message ExecRequestSync"))


class FakeHands:
    """The side effects that the contract needs, carried out on the fake runtime."""

    def __init__(self, runtime: FakeRuntime, socket: Path) -> None:
        self.runtime = runtime
        self._socket = socket
        self._stack = AsyncExitStack()
        self._commands: set[asyncio.Task[tuple[bytes, bytes]]] = set()
        runtime.exec = self._exec

    async def run_container(self, name: str, *, pod_uid: str, attempt: int = 0) -> str:
        return self.runtime.run_container(name, pod_uid=pod_uid, attempt=attempt).id

    async def publish(self, reference: str, *, user: str = "", takes_s: float = 0.0) -> str:
        remote = Remote(user=user, takes_s=takes_s)
        self.runtime.registry[reference] = remote
        name = parse_image(reference).name
        self.runtime.registry[f"{name}@{remote.digest}"] = remote
        return remote.digest

    async def kill(self) -> None:
        await self._stack.aclose()
        await asyncio.gather(*self._commands)

    async def restart(self) -> None:
        await self._stack.enter_async_context(serving(self.runtime, self._socket))

    async def _exec(self, _name: str, command: Sequence[str]) -> ExecResult:
        """Run the command on this machine. It is killed when the call is cancelled."""
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        # A server cancels its calls twice when it closes, so the end of the process is awaited outside the call.
        self._commands.add(ended := asyncio.create_task(process.communicate()))
        try:
            out, err = await asyncio.shield(ended)
        finally:
            if process.returncode is None:
                process.kill()
        return ExecResult(exit_code=process.returncode or 0, stdout=out, stderr=err)


@pytest.fixture(params=[True, False], ids=["with events", "without events"])
async def hands(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FakeHands]:
    made = FakeHands(
        FakeRuntime(read_system_clock, has_events=request.param, restarts_in_s=None), tmp_path / "cri.sock"
    )
    await made.restart()
    yield made
    await made.kill()


@pytest.mark.real_time
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_fake_runtime_keeps_the_contract(check: Check, hands: FakeHands, tmp_path: Path) -> None:
    client = CriClient(str(tmp_path / "cri.sock"))
    try:
        await check(client, hands)
    finally:
        client.close()


@pytest.mark.real_time
async def test_all_runtimes_that_answer_are_found_the_known_names_in_their_order(tmp_path: Path) -> None:
    """operations case 32"""
    (tmp_path / "crio").mkdir()
    containerd, crio = FakeRuntime(read_system_clock), FakeRuntime(read_system_clock, name="cri-o")
    async with (
        serving(containerd, tmp_path / "containerd.sock"),
        serving(crio, tmp_path / "crio/crio.sock"),
        serving(FakeRuntime(read_system_clock), tmp_path / "other.sock"),
    ):
        runtimes = await find_runtimes(tmp_path)
        try:
            assert [runtime.name for runtime in runtimes.all] == ["containerd", "cri-o"]
            assert runtimes.first.name == "containerd"
            crio_runtime = runtimes.find_runtime("cri-o://1")
            assert crio_runtime is not None
            assert runtimes.find_runtime("docker://1") is None
        finally:
            runtimes.close()
        # and a runtime that does not answer is skipped
        containerd.is_down = True
        runtimes = await find_runtimes(tmp_path)
        runtimes.close()
        assert runtimes.first.name == "cri-o"
        # with a socket file, only that runtime is used
        runtimes = await find_runtimes(tmp_path, socket_file="other.sock")
        runtimes.close()
        assert len(runtimes.all) == 1


@pytest.mark.real_time
async def test_an_agent_without_a_runtime_names_the_sockets_that_it_tried(tmp_path: Path) -> None:
    """operations case 31"""
    with pytest.raises(ConfigurationError, match=r"my\.sock exists"):
        await find_runtimes(tmp_path, socket_file="my.sock")
    with pytest.raises(ConfigurationError, match=r"containerd\.sock"):
        await find_runtimes(tmp_path)


@pytest.mark.real_time
async def test_a_socket_with_two_paths_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "containerd").mkdir()
    async with serving(FakeRuntime(read_system_clock), tmp_path / "containerd/containerd.sock"):
        (tmp_path / "containerd.sock").symlink_to(tmp_path / "containerd/containerd.sock")
        assert len(list_socket_paths(tmp_path)) == 1


async def test_runtime_events_enqueue_their_pod_and_a_gap_enqueues_everything() -> None:
    runtime = FakeRuntime(asyncio.get_running_loop().time)
    enqueued: list[str] = []
    changes = RuntimeChanges(Runtime("containerd", runtime), enqueued.append)  # type: ignore[arg-type]
    task = asyncio.create_task(changes.run())
    await asyncio.sleep(0.1)
    runtime.run_container("app", pod_uid="a")
    await asyncio.sleep(0.1)
    assert (enqueued, changes.poll_s) == (["a"], 10.0)
    # while the runtime does not answer
    runtime.go_down()
    await asyncio.sleep(3.0)
    assert changes.poll_s == 1.0
    runtime.come_back()
    await asyncio.sleep(6.0)
    assert enqueued[-1] == ""
    runtime.run_container("app", pod_uid="b")
    await asyncio.sleep(0.1)
    assert enqueued[-1] == "b"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_runtime_without_events_is_polled() -> None:
    runtime = FakeRuntime(asyncio.get_running_loop().time, has_events=False)
    changes = RuntimeChanges(Runtime("containerd", runtime), lambda _: None)  # type: ignore[arg-type]
    await changes.run()
    assert changes.poll_s == 1.0


async def test_events_that_only_one_client_receives_are_left_to_the_kubelet() -> None:
    runtime = FakeRuntime(asyncio.get_running_loop().time)
    given = Runtime("containerd", runtime, splits_events=True)  # type: ignore[arg-type]
    changes = RuntimeChanges(given, lambda _: None)
    await changes.run()
    assert changes.poll_s == 1.0
    assert runtime.calls == []


@pytest.mark.parametrize(
    ("name", "version", "is_split"),
    [
        ("containerd", "1.7.27", True),
        ("containerd", "v1.6.38", True),
        ("containerd", "1.7.12-0ubuntu1", True),
        ("containerd", "unknown", True),
        ("containerd", "2.0.0", False),
        ("containerd", "v2.1.4-k3s1", False),
        ("cri-o", "1.32.1", False),
        ("docker", "28.0.1", False),
    ],
)
def test_containerd_before_2_sends_each_event_to_one_client(name: str, version: str, is_split: bool) -> None:
    assert splits_events(RuntimeVersion(name=name, version=version, api_version="v1")) is is_split


@pytest.mark.real_time
@pytest.mark.parametrize("is_in_host_network", [False, True])
async def test_the_network_of_a_pod_is_read(tmp_path: Path, is_in_host_network: bool) -> None:
    runtime = FakeRuntime(read_system_clock)
    runtime.in_host_network = {"u-1"} if is_in_host_network else set()
    container = runtime.run_container("main", pod_uid="u-1")
    async with serving(runtime, tmp_path / "cri.sock"):
        client = CriClient(str(tmp_path / "cri.sock"))
        result = await client.read_sandbox_status(container.sandbox_id)
        client.close()
    assert result.is_in_host_network is is_in_host_network


# ── answers without end ──────────────────────────────────────────────────────


@pytest.mark.real_time
async def test_only_the_beginning_of_a_commands_output_is_kept(tmp_path: Path) -> None:
    """Container runtimes pass on up to 16 MB of output."""
    printed = b"y" * 16_000_000
    runtime = FakeRuntime(read_system_clock)

    async def run(_name: str, _command: Sequence[str]) -> ExecResult:
        return ExecResult(exit_code=3, stdout=printed, stderr=b"why")

    runtime.exec = run
    container = runtime.run_container("main", pod_uid="u-1")
    async with serving(runtime, tmp_path / "cri.sock"):
        client = CriClient(str(tmp_path / "cri.sock"))
        result = await client.exec_sync(container.id, ["yes"], timeout_s=60)
        longer = await client.exec_sync(container.id, ["yes"], timeout_s=60, most_output=100_000)
        client.close()
    assert result == ExecResult(exit_code=3, stdout=printed[:LONGEST_FIELD], stderr=b"why")
    assert longer == ExecResult(exit_code=3, stdout=printed[:100_000], stderr=b"why")


class Pieces:
    """A stream that records the size of the largest read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.largest = 0

    async def recv_data(self, size: int) -> bytes:
        self.largest = max(self.largest, size)
        data, self.data = self.data[:size], self.data[size:]
        return data


def framed(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4, "big") + body


@given(st.binary(), st.binary(), st.integers(-(2**31), 2**31 - 1))
async def test_a_message_without_long_fields_is_unchanged(out: bytes, err: bytes, code: int) -> None:
    answer = load_message_class("ExecSyncResponse")(
        stdout=out, stderr=err, exit_code=code
    ).SerializeToString()
    stream = Shortened(Pieces(framed(answer)))
    head = await stream.recv_data(5)
    assert head == framed(answer)[:5]
    assert await stream.recv_data(len(answer)) == answer


async def test_a_shortened_stream_reads_at_most_one_field_per_read() -> None:
    answer = load_message_class("ExecSyncResponse")(stdout=b"x" * 5_000_000, exit_code=7).SerializeToString()
    pieces = Pieces(framed(answer))
    stream = Shortened(pieces)
    await stream.recv_data(5)
    result = load_message_class("ExecSyncResponse").FromString(await stream.recv_data(70_000))
    assert (len(result.stdout), result.exit_code) == (LONGEST_FIELD, 7)
    assert pieces.largest == LONGEST_FIELD


@given(st.binary(max_size=64))
async def test_bytes_that_are_not_a_protobuf_message_raise_value_error(body: bytes) -> None:
    stream = Shortened(Pieces(framed(body)))
    try:
        await stream.recv_data(5)
    except ValueError:
        return
    assert len(await stream.recv_data(0)) <= len(body)


def test_an_error_of_the_runtime_is_kept_as_an_excerpt() -> None:
    """The error becomes a message in a status."""
    text = str(CallRefusedError("failed to pull: " + "x " * 100_000 + "denied"))
    assert len(text) <= 1024
    assert text.startswith("failed to pull: ")
    assert text.endswith("denied")
