"""Faults of a proxy in HTTP: after each fault the client has the answer, or an error that names the fault.

The client asks the sandbox through a FaultyProxy. Three things hold for each fault: an error is a KubeError
with one short line, a write takes effect at most once, and the next request is answered as if nothing had happened.
"""

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from pykruise.kube.cache.cache import Cache
from pykruise.kube.cache.metadata_view import MetadataView, project_metadata
from pykruise.kube.client.client import Client, WatchEvent
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.connection import Connection
from pykruise.kube.documents import decode
from pykruise.kube.errors import AnswerTooLargeError, KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS
from support.faulty_proxy import Asked, FaultyProxy, Line, Wire, answered, document, proxied

pytestmark = pytest.mark.real_time

OTHER = document("other")
MIB = 1 << 20


def says(data: bytes, *, stays: bool = False) -> Wire:
    """A fault that sends these bytes, and closes the connection unless it `stays`."""

    async def fault(line: Line, asked: Asked) -> bool:
        await line.say(data)
        return stays

    return fault


def floods(head: bytes, part: bytes, *, most: int = 100 * MIB) -> Wire:
    async def fault(line: Line, asked: Asked) -> None:
        await line.say(head)
        await line.forever(part, most=most)

    return fault


async def resets_before_it_reads(line: Line, asked: Asked) -> None:
    line.reset()


async def resets_after_it_took_effect(line: Line, asked: Asked) -> None:
    await asked.forward()
    line.reset()


async def hangs(line: Line, asked: Asked) -> None:
    await asyncio.sleep(5)


async def drips(line: Line, asked: Asked) -> None:
    for byte in answered(OTHER):
        await line.say(bytes([byte]))
        await asyncio.sleep(0.05)


async def answers_in_pieces(line: Line, asked: Asked) -> bool:
    answer = await asked.forward()
    for byte in answered(answer.body, f"{answer.status} X"):
        await line.say(bytes([byte]))
        await asyncio.sleep(0)
    return True


async def answers_after_an_interim_answer(line: Line, asked: Asked) -> bool:
    await line.say(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
    answer = await asked.forward()
    await line.say(answered(answer.body, f"{answer.status} X"))
    return True


async def answers_like_http_1_0(line: Line, asked: Asked) -> None:
    answer = await asked.forward()
    await line.say(b"HTTP/1.0 %d X\r\n\r\n" % answer.status + answer.body)


async def answers_and_goes_on(line: Line, asked: Asked) -> bool:
    answer = await asked.forward()
    await line.say(answered(answer.body, f"{answer.status} X") + answered(OTHER))
    return True


async def answers_and_closes(line: Line, asked: Asked) -> None:
    answer = await asked.forward()
    await line.say(answered(answer.body, f"{answer.status} X"))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
RETRY = ["0", "1", "-5", "1.5", "soon", "86400", "9" * 5_000, "Fri, 27 Nov 2026 20:00:00 GMT", "inf", ""]


def busy(code: int, retry_after: str) -> bytes:
    return answered(b"", f"{code} Busy", f"Retry-After: {retry_after}")


FAULTS: dict[str, Wire] = {
    "no answer": says(b""),
    "cut in the status line": says(b"HTTP/1.1 20"),
    "cut in the head": says(HEAD + b"Content-Le"),
    "cut in the body": says(answered(OTHER)[:-10]),
    "cut in a chunk": says(CHUNKED + b"100\r\nabc"),
    "cut between chunks": says(CHUNKED + b"3\r\n{} \r\n"),
    "a length that is too long": says(HEAD + b"Content-Length: 5000\r\n\r\n" + OTHER),
    "a length that is too short": says(HEAD + b"Content-Length: 10\r\n\r\n" + OTHER, stays=True),
    "a negative length": says(HEAD + b"Content-Length: -1\r\n\r\n" + OTHER),
    "a length of twenty digits": says(HEAD + b"Content-Length: 99999999999999999999\r\n\r\n" + OTHER),
    "a chunk size that is none": says(CHUNKED + b"zz\r\n" + OTHER),
    "a chunk size beyond all": says(CHUNKED + b"fffffffffffffffff\r\n" + OTHER),
    "two lengths": says(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"),
    "a length and chunks": says(
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    ),
    "no HTTP": says(b"SSH-2.0-OpenSSH_9.0\r\n"),
    "a status that is none": says(b"HTTP/1.1 abc OK\r\n\r\n"),
    "an alert of TLS": says(b"\x15\x03\x01\x00\x02\x02\x28"),
    "random bytes": says(random.Random(1).randbytes(3_000)),
    "a reset before it was read": resets_before_it_reads,
    "a reset after it took effect": resets_after_it_took_effect,
    "silence": hangs,
    "drops": drips,
    "pieces": answers_in_pieces,
    "an interim answer": answers_after_an_interim_answer,
    "interim answers without end": floods(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
    "HTTP/1.0": answers_like_http_1_0,
    "two answers": answers_and_goes_on,
    "an answer and the end": answers_and_closes,
    "a head without end": floods(HEAD, b"X-A: " + b"a" * 1000 + b"\r\n"),
    "a header without end": floods(HEAD + b"X-A: ", b"a" * 65536),
    "a body without end": floods(HEAD + b"Content-Length: 200000000\r\n\r\n", b"[" * 65536),
    "chunks without end": floods(CHUNKED, b"10000\r\n" + b"[" * 65536 + b"\r\n"),
    "trailers without end": floods(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: " + b"a" * 1000 + b"\r\n"),
    "garbage that says it is gzip": says(
        answered(b"\x1f\x8b" + b"\x00" * 50, "200 OK", "Content-Encoding: gzip")
    ),
    "an empty 200": says(answered(b""), stays=True),
    "a 204 with a body": says(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}", stays=True),
    "half a document": says(answered(OTHER[:-5]), stays=True),
    "no UTF-8": says(answered(OTHER.replace(b"other", b"\xff\xfe\xfd")), stays=True),
    "a page": says(answered(b"<html><body>maintenance</body></html>"), stays=True),
    "a Status": says(answered(b'{"kind": "Status", "status": "Success"}'), stays=True),
    "null": says(answered(b"null"), stays=True),
    "a redirect": says(answered(b"", "302 Found", "Location: http://127.0.0.1:1/"), stays=True),
    "a redirect without a place": says(answered(b"", "301 Moved Permanently"), stays=True),
    "an error of 100 kB": says(answered(b"x" * 100_000, "500 Oops"), stays=True),
    "a status of 999": says(answered(b"", "999 Odd"), stays=True),
    "too many requests": says(answered(b"", "429 Busy"), stays=True),
    **{
        f"{code} with Retry-After {text[:10]!r}": says(busy(code, text), stays=True)
        for code in (429, 503)
        for text in RETRY
    },
}


@asynccontextmanager
async def client_of(proxy: FaultyProxy) -> AsyncIterator[Client]:
    transport = HttpTransport(Connection(proxy.url), timeout_s=0.5, connect_timeout_s=0.5)
    try:
        yield Client(transport, rng=random.Random(1), retry=RetryPolicy(base_s=0.01, patience_s=0.2))
    finally:
        await transport.close()


def is_clear(error: KubeError) -> bool:
    """Check that the error is one short line."""
    text = str(error)
    return 0 < len(text) <= 1_100 and "\r" not in text and "Traceback" not in text


@pytest.mark.parametrize("fault", FAULTS)
async def test_after_a_fault_there_is_an_answer_or_a_clear_error_and_the_next_request_is_fine(
    fault: str,
) -> None:
    async with proxied() as proxy, client_of(proxy) as client:
        # given
        await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}, "data": {"n": "0"}})
        # when a read meets it, and then a write
        proxy.next_faults = [FAULTS[fault]]
        read = await outcome(client.get(CONFIG_MAPS, "default", "a"))
        proxy.next_faults = [FAULTS[fault]]
        patch = [
            {"op": "test", "path": "/data/n", "value": "0"},
            {"op": "replace", "path": "/data/n", "value": "1"},
        ]
        written = await outcome(client.patch(CONFIG_MAPS, "default", "a", patch, patch_type=PatchType.JSON))
        # then each has an answer or a clear error
        for result in (read, written):
            if isinstance(result, KubeError):
                assert is_clear(result), str(result)
            else:
                assert decode(result)["metadata"]["name"] in ("a", "other")
        # and another client, which was not told to wait, is answered over the same connections
        proxy.next_faults = []
        other = Client(client.transport, rng=random.Random(1))
        assert decode(await other.get(CONFIG_MAPS, "default", "a"))["data"]["n"] in ("0", "1")
        # and only a write that was rejected with 429 or 503 was sent again
        sent = [asked for asked in proxy.asked if asked.method == "PATCH"]
        is_at_the_door = fault.startswith(("429", "503")) or fault == "too many requests"
        assert len(sent) <= (4 if is_at_the_door else 1)


async def outcome(asking: Awaitable[bytes]) -> bytes | KubeError:
    try:
        return await asking
    except KubeError as error:
        return error


EVENT = b'{"type":"MODIFIED","object":' + document("a") + b"}\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


WATCH_FAULTS: dict[str, Wire] = {
    "no answer": says(b""),
    "an end at once": says(CHUNKED + b"0\r\n\r\n"),
    "an empty 200": says(answered(b"")),
    "cut in a chunk": says(CHUNKED + b"100\r\n" + EVENT[:50]),
    "half an event": says(CHUNKED + chunk(EVENT[:30]) + b"0\r\n\r\n"),
    "a line without end": floods(CHUNKED, chunk(b"x" * 65536)),
    "a line without end of its chunk": floods(CHUNKED + b"fffffff\r\n", b"x" * 65536),
    "an unknown type": says(CHUNKED + chunk(EVENT.replace(b"MODIFIED", b"EXPLODED"))),
    "no type": says(CHUNKED + chunk(b'{"object": {}}\n')),
    "no object": says(CHUNKED + chunk(b'{"type": "ADDED"}\n')),
    "an object that is none": says(CHUNKED + chunk(b'{"type": "ADDED", "object": [1, null]}\n')),
    "an object without metadata": says(CHUNKED + chunk(b'{"type": "ADDED", "object": {"kind": "Status"}}\n')),
    "a version that is no number": says(CHUNKED + chunk(EVENT.replace(b'"5"', b'"x"'))),
    "no UTF-8": says(CHUNKED + chunk(EVENT.replace(b"ConfigMap", b"\xff\xfe"))),
    "garbage": says(CHUNKED + chunk(b"garbage\n" * 10)),
    "a page": says(answered(b"<html>\n<body>\nmaintenance\n</body>\n")),
    "gone, in the stream": says(
        CHUNKED
        + chunk(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}\n')
    ),
    "an error without a Status": says(CHUNKED + chunk(b'{"type": "ERROR", "object": null}\n')),
    "an error of a megabyte": says(
        CHUNKED + chunk(b'{"type": "ERROR", "object": {"code": 500, "message": "' + b"x" * MIB + b'"}}\n')
    ),
    "gone": says(answered(b"", "410 Gone")),
    "a refusal without end": floods(
        b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"x" * 65536)
    ),
    "a redirect": says(answered(b"", "302 Found", "Location: /")),
    "too many requests, for a day": says(answered(b"", "429 Busy", "Retry-After: 1")),
    "a head without end": floods(HEAD, b"X-A: " + b"a" * 1000 + b"\r\n"),
    "a reset": resets_before_it_reads,
    "silence": hangs,
    "a bookmark of the past": says(
        CHUNKED + chunk(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n') + b"0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("fault", WATCH_FAULTS)
async def test_a_cache_follows_again_after_a_fault_of_its_watch(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied() as proxy, client_of(proxy) as client:
        # given a cache whose first watch meets it
        proxy.applies_to = lambda asked: asked.is_watch
        proxy.next_faults = [WATCH_FAULTS[fault]]
        cache: Cache[MetadataView] = Cache(
            client,
            CONFIG_MAPS,
            project=project_metadata,
            clock=read_system_clock,
            rng=random.Random(1),
            idle_timeout_s=0.5,
        )
        running = asyncio.create_task(cache.run())
        try:
            await _until(lambda: not proxy.next_faults)
            # when something is written past it
            await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "late"}})
            # then
            await _until(lambda: any(item.name == "late" for item in cache.values()))
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert all(len(record.getMessage()) < 2_000 for record in caplog.records)
    assert "Traceback" not in caplog.text


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "fault", ["a head without end", "a header without end", "interim answers without end"]
)
async def test_an_endless_answer_takes_little_memory(fault: str) -> None:
    async with proxied() as proxy, client_of(proxy) as client:
        proxy.next_faults = [FAULTS[fault]]
        tracemalloc.start()
        try:
            with pytest.raises(AnswerTooLargeError, match="the head has more than 65536 bytes"):
                await client.get(CONFIG_MAPS, "default", "a")
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()


async def first_event(client: Client) -> WatchEvent:
    async with client.watch(CONFIG_MAPS, resource_version="1") as events:
        return await anext(events)


@pytest.mark.parametrize("fault", ["a line without end", "a line without end of its chunk"])
async def test_a_line_without_end_ends_its_stream_at_the_bound(fault: str) -> None:
    async with proxied() as proxy, client_of(proxy) as client:
        proxy.next_faults = [WATCH_FAULTS[fault]]
        with pytest.raises(AnswerTooLargeError, match="a line has more than 16777216 bytes"):
            await first_event(client)


@pytest.mark.parametrize("fault", ["a body without end", "chunks without end"])
async def test_a_body_without_end_ends_its_connection_at_the_bound(fault: str) -> None:
    async with proxied() as proxy:
        transport = HttpTransport(Connection(proxy.url), timeout_s=20.0)
        proxy.next_faults = [FAULTS[fault]]
        try:
            with pytest.raises(AnswerTooLargeError, match="the body has more than 67108864 bytes"):
                await Client(transport).get_path("/version")
        finally:
            await transport.close()
        assert len(proxy.asked) == 1


async def test_a_list_with_too_large_pages_is_retried_with_smaller_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykruise.kube.http.client.MOST_BODY", 100_000)
    async with proxied() as proxy, client_of(proxy) as client:
        # given thirty objects of 4 kB
        for number in range(30):
            body = {"metadata": {"name": f"c-{number}"}, "data": {"x": "y" * 4_000}}
            await client.create(CONFIG_MAPS, "default", body)
        # when, then
        assert len((await client.list(CONFIG_MAPS, "default")).items) >= 30
        assert any("limit=20" in asked.target for asked in proxy.asked)
