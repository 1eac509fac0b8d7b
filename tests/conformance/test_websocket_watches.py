"""Watches over WebSockets: the sandbox and a real API server respond in the same way.

    pytest tests/conformance/test_websocket_watches.py                  the sandbox
    pytest tests/conformance/test_websocket_watches.py --cluster=real   a real API server ($KUBERNETES)

The same assertions run on both. Frames are compared with the lines of the same watch over HTTP.
"""

import asyncio
import base64
import json
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp
import pytest

from pykruise.kube.clock import read_system_clock
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.certificates import issue
from pykruise.sandbox.http_front import HttpFront
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(60)]

TOKEN: Final = "a-token"
ORIGIN: Final = "https://example.com"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
HANDSHAKE: Final[Mapping[str, str]] = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Origin": ORIGIN,
}
TOKEN_PREFIX: Final = "base64url.bearer.authorization.k8s.io."


class Server(NamedTuple):
    """An API server, and a session of its admin."""

    session: aiohttp.ClientSession
    token: str

    async def create(self, name: str) -> str:
        """Create a ConfigMap; returns its resourceVersion."""
        body = {"metadata": {"name": name, "labels": {"of": name}}, "data": {"text": "x" * 70_000}}
        async with self.session.post(CONFIG_MAPS, json=body) as answer:
            created = await answer.json()
            assert answer.status == 201, created
            return str(created["metadata"]["resourceVersion"])

    async def delete(self, name: str) -> None:
        """Delete a ConfigMap."""
        async with self.session.delete(f"{CONFIG_MAPS}/{name}") as answer:
            assert answer.status in (200, 404), await answer.text()

    async def refusal(self, *, query: str = "watch=true", **headers: str | None) -> tuple[int, str]:
        """Status and text of the response to a handshake with other headers; None: without this header."""
        given = {**HANDSHAKE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        sent = {name: value for name, value in given.items() if value is not None}
        async with self.session.get(f"{CONFIG_MAPS}?{query}", headers=sent) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def _session(url: str, authority: bytes | str, token: str) -> AsyncIterator[Server]:
    text = authority if isinstance(authority, str) else authority.decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=text))
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(url, connector=connector, headers=headers) as session:
        yield Server(session, token)
    await asyncio.sleep(0.05)  # TLS connections close a moment later


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def control_plane(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real API server; None: the sandbox."""
    # Not in an asynchronous fixture: a control plane starts in an event loop of its own.
    return request.getfixturevalue("plane") if request.param == "real" else None


@pytest.fixture
async def server(control_plane: ControlPlane | None) -> AsyncIterator[Server]:
    """The sandbox, and a real API server."""
    if (plane := control_plane) is not None:
        async with _session(plane.url, plane.ca_data, plane.token) as server:
            yield server
        return
    certificate = issue(now=read_system_clock())
    api = ApiServer(clock=read_system_clock, rng=random.Random(1))
    front = HttpFront(api, token=TOKEN, certificate=certificate)
    await front.start()
    try:
        async with _session(front.url, certificate.authority, TOKEN) as server:
            yield server
    finally:
        await front.stop()


@asynccontextmanager
async def _socket(
    server: Server, query: str, *protocols: str, path: str = CONFIG_MAPS, **headers: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with server.session.ws_connect(
        f"{path}?{query}", origin=ORIGIN, protocols=protocols, headers=headers, autoping=False, max_msg_size=0
    ) as socket:
        yield socket


async def _frames(socket: aiohttp.ClientWebSocketResponse) -> list[str]:
    """The texts of all frames until the end, which must be a normal one."""
    texts = []
    while (message := await socket.receive(timeout=20)).type is aiohttp.WSMsgType.TEXT:
        texts.append(message.data)
    assert message.type is aiohttp.WSMsgType.CLOSE, message
    assert message.data == 1000
    return texts


async def _lines(server: Server, query: str, **headers: str) -> list[str]:
    async with server.session.get(f"{CONFIG_MAPS}?{query}", headers=headers) as answer:
        assert answer.status == 200
        return (await answer.text()).splitlines(keepends=True)


FORMS: Final[Mapping[str, dict[str, str]]] = {
    "objects": {},
    "tables": {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
    "metadata": {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
}


@pytest.mark.parametrize("form", FORMS)
async def test_each_event_is_a_text_frame_with_the_line_of_the_watch_over_http(
    server: Server, form: str
) -> None:
    # given changes
    since = await server.create("before")
    await server.create("a")
    await server.delete("a")
    await server.delete("before")
    # when both watches follow them to the end
    query = f"watch=true&timeoutSeconds=1&resourceVersion={since}"
    async with _socket(server, query, **FORMS[form]) as socket:
        frames = await _frames(socket)
    # then
    lines = await _lines(server, query, **FORMS[form])
    assert [json.loads(frame)["type"] for frame in frames] == ["ADDED", "DELETED", "DELETED"]
    assert [_comparable(frame) for frame in frames] == [_comparable(line) for line in lines]
    assert all(frame.endswith("}\n") for frame in frames)


def _comparable(line: str) -> Any:
    event = json.loads(line)
    for row in event["object"].get("rows", ()):
        row["cells"][-1] = "an age, which grows"
    return event


async def test_a_change_is_sent_immediately(server: Server) -> None:
    since = await server.create("first")
    async with _socket(server, f"watch=true&resourceVersion={since}") as socket:
        # when
        await server.create("second")
        # then
        event = json.loads((await socket.receive(timeout=20)).data)
        assert event["object"]["metadata"]["name"] == "second"
    for name in ("first", "second"):
        await server.delete(name)


async def test_an_older_path_watches_too(server: Server) -> None:
    await server.create("known")
    path = CONFIG_MAPS.replace("/api/v1/", "/api/v1/watch/")
    query = "timeoutSeconds=1&labelSelector=of%3Dknown"
    async with _socket(server, query, path=path) as socket:
        assert [json.loads(frame)["type"] for frame in await _frames(socket)] == ["ADDED"]
    await server.delete("known")


async def test_an_error_of_the_watch_is_a_frame(server: Server) -> None:
    async with _socket(server, "watch=true&timeoutSeconds=1&resourceVersion=99999999") as socket:
        frames = await _frames(socket)
    assert [json.loads(frame)["object"]["code"] for frame in frames] in ([504], [])


async def test_pings_are_answered_and_other_frames_are_ignored(server: Server) -> None:
    since = await server.create("one")
    async with _socket(server, f"watch=true&resourceVersion={since}") as socket:
        # when
        await socket.send_str("hello")
        await socket.send_bytes(b"x" * 100_000)
        for number in range(300):
            await socket.ping(b"%d" % number)
        # then
        for number in range(300):
            message = await socket.receive(timeout=20)
            assert (message.type, message.data) == (aiohttp.WSMsgType.PONG, b"%d" % number)
        await server.delete("one")
        assert json.loads((await socket.receive(timeout=20)).data)["type"] == "DELETED"


async def test_the_client_ends_it(server: Server) -> None:
    async with _socket(server, "watch=true&labelSelector=of%3Dnothing") as socket:
        # when aiohttp sends the close frame and waits for the server's
        assert await socket.close()
        # then
        assert socket.close_code == 1000


@pytest.mark.parametrize("protocol", ["", "v4.channel.k8s.io", "whatever"])
async def test_one_subprotocol_of_any_name_is_accepted(server: Server, protocol: str) -> None:
    query = "watch=true&timeoutSeconds=1&labelSelector=of%3Dnothing"
    async with _socket(server, query, *([protocol] if protocol else [])) as socket:
        assert socket.protocol == (protocol or None)


async def test_a_subprotocol_carries_the_token_of_a_client_without_headers(server: Server) -> None:
    token = TOKEN_PREFIX + base64.urlsafe_b64encode(server.token.encode()).decode().rstrip("=")
    query = "watch=true&timeoutSeconds=1&labelSelector=of%3Dnothing"
    async with _socket(server, query, "events", token, Authorization="") as socket:
        assert socket.protocol == "events"
    # and without another subprotocol, or with a wrong token, it is refused
    wrong = TOKEN_PREFIX + base64.urlsafe_b64encode(b"wrong").decode().rstrip("=")
    for protocols in (token, f"events, {wrong}", f"events, {token}, {token}", f"events, {TOKEN_PREFIX}!"):
        status, text = await server.refusal(Authorization="", Sec_WebSocket_Protocol=protocols)
        assert (status, json.loads(text)["reason"]) == (401, "Unauthorized"), protocols


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({"Origin": None}, 403, ""),
        ({"Origin": "null"}, 403, ""),
        ({"Origin": "example.com"}, 403, ""),
        ({"Sec_WebSocket_Key": None}, 400, "mismatch challenge/response"),
        ({"Sec_WebSocket_Version": "8"}, 400, "missing or bad WebSocket Version"),
        ({"Sec_WebSocket_Version": None}, 400, "missing or bad WebSocket Version"),
        ({"Sec_WebSocket_Protocol": "a, b"}, 400, ""),
    ],
)
async def test_a_handshake_is_refused(
    server: Server, headers: dict[str, str | None], status: int, text: str
) -> None:
    assert await server.refusal(**headers) == (status, text)


async def test_a_refused_watch_is_refused_before_the_handshake(server: Server) -> None:
    status, text = await server.refusal(query="watch=true&resourceVersion=soon")
    assert (status, json.loads(text)["kind"]) == (500, "Status")


@pytest.mark.parametrize("header", ["Connection", "Upgrade"])
async def test_a_request_without_an_upgrade_is_a_watch_over_http(server: Server, header: str) -> None:
    status, text = await server.refusal(
        query="watch=true&timeoutSeconds=1&labelSelector=of%3Dnothing", **{header: None}
    )
    assert (status, text) == (200, "")
