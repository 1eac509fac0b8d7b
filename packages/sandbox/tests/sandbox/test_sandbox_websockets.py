"""Frames of clients, read in pieces of any size: pings and the end are handled, all other frames are dropped."""

import random
import struct

import pytest

from pykruise.sandbox.websockets import (
    NORMAL_CLOSURE,
    PROTOCOL_ERROR,
    ClientFrame,
    FrameReader,
    Opcode,
    answer_handshake,
    is_websocket_request,
    text_frame,
)

MASK = b"\x0a\x0b\x0c\x0d"


def masked(opcode: int, payload: bytes, *, mask: bytes = MASK) -> bytes:
    """A client's frame."""
    size = len(payload)
    if size <= 125:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head + mask + bytes(byte ^ mask[number % 4] for number, byte in enumerate(payload))


STREAM = b"".join(
    (
        masked(1, b"hello"),
        masked(9, b""),
        masked(2, b"x" * 300),
        masked(9, b"a ping"),
        masked(2, b"y" * 70_000),
        masked(10, b"a pong"),
        masked(1, b""),
        masked(9, b"z" * 125),
        masked(8, struct.pack("!H", 1001)),
        masked(9, b"too late"),
    )
)
NOTICED = [
    ClientFrame(Opcode.PING, b""),
    ClientFrame(Opcode.PING, b"a ping"),
    ClientFrame(Opcode.PING, b"z" * 125),
    ClientFrame(Opcode.CLOSE, b"", NORMAL_CLOSURE),
]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1000, len(STREAM)])
def test_pings_and_the_end_are_noticed_in_any_pieces(most: int) -> None:
    # given
    reader, rng, at = FrameReader(), random.Random(most), 0
    frames: list[ClientFrame] = []
    # when
    while at < len(STREAM) and not (frames and frames[-1].opcode == Opcode.CLOSE):
        size = rng.randint(1, most)
        frames += reader.read(STREAM[at : at + size])
        at += size
    # then
    assert frames == NOTICED


def test_a_frame_without_a_mask_ends_the_connection_with_an_error() -> None:
    assert list(FrameReader().read(b"\x89\x00")) == [ClientFrame(Opcode.CLOSE, b"", PROTOCOL_ERROR)]


def test_nothing_of_a_long_ping_is_kept_or_answered() -> None:
    assert list(FrameReader().read(masked(9, b"x" * 126) + masked(9, b"next"))) == [
        ClientFrame(Opcode.PING, b"next")
    ]


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_the_head_of_a_message_has_its_size(size: int) -> None:
    frame = text_frame(b"x" * size)
    head = frame[: len(frame) - size]
    assert head[0] == 0x81
    assert {125: 2, 0: 2, 126: 4, 65_535: 4, 65_536: 10}[size] == len(head)
    assert int.from_bytes(head[2:] or head[1:2], "big") == size


def test_the_accepted_key_is_that_of_the_standard() -> None:
    """The example of RFC 6455, section 1.3."""
    headers = {
        "connection": "keep-alive, Upgrade",
        "upgrade": "WebSocket",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
        "origin": "http://example.com",
    }
    assert is_websocket_request(headers)
    answer = answer_handshake(headers)
    assert (answer.status, answer.headers["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
