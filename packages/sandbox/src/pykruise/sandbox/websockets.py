"""WebSockets (RFC 6455) as a real API server speaks them for watches: handshakes and frames.

    headers of a request ──▶ answer_handshake() ──▶ 101, or a rejection
    text of an event     ──▶ text_frame()       ──▶ bytes to the client
    bytes of the client  ──▶ FrameReader.read() ──▶ pings and the end; all other frames are dropped

Same rules as golang.org/x/net/websocket, which kube-apiserver uses for watches: a request needs an Origin, one
subprotocol is accepted whatever its name is, and the server sends each message as one frame without compression. Pure.
"""

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from pykruise.kube.client.transport import Response

__all__ = [
    "NORMAL_CLOSURE",
    "PROTOCOL_ERROR",
    "ClientFrame",
    "FrameReader",
    "Opcode",
    "TokenProtocolError",
    "answer_handshake",
    "close_frame",
    "is_websocket_request",
    "pong_frame",
    "split_token",
    "text_frame",
]

NORMAL_CLOSURE: Final = 1000
PROTOCOL_ERROR: Final = 1002

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOLS: Final = "sec-websocket-protocol"
_TOKEN_PREFIX: Final = "base64url.bearer.authorization.k8s.io."
_is_request_uri: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:").match
_is_upgrade: Final = re.compile(r"(^|.*,|\s)upgrade($|,|\s)", re.IGNORECASE).search
_FINAL: Final = 0x80
_MASKED: Final = 0x80


class Opcode(IntEnum):
    """Kinds of frames that the server distinguishes."""

    TEXT = 1
    CLOSE = 8
    PING = 9
    PONG = 10


class ClientFrame(NamedTuple):
    """A frame of a client that needs a response: a ping, or the end of the connection."""

    opcode: Opcode
    payload: bytes
    """Payload of a ping."""
    status: int = NORMAL_CLOSURE
    """Status code of the close frame with which the server responds to the end."""


class TokenProtocolError(ValueError):
    """The subprotocols contain a token in a form that a real API server rejects."""


def is_websocket_request(headers: Mapping[str, str]) -> bool:
    """Whether a request asks to continue as a WebSocket. Names of headers are lower case."""
    return headers.get("upgrade", "").lower() == "websocket" and bool(
        _is_upgrade(headers.get("connection", ""))
    )


def answer_handshake(headers: Mapping[str, str]) -> Response:
    """Return 101 with the headers of an accepted handshake, or the rejection that a real API server sends."""
    key = headers.get("sec-websocket-key", "")
    if not key:
        return Response(400, {}, b"mismatch challenge/response")
    if headers.get("sec-websocket-version") != "13":
        return Response(400, {"sec-websocket-version": "13"}, b"missing or bad WebSocket Version")
    if not _is_request_uri(headers.get("origin", "")):
        return Response(403, {}, b"")
    protocols = _split_protocols(headers)
    if len(protocols) > 1:
        return Response(400, {}, b"")
    digest = hashlib.sha1(key.encode("utf-8", "replace") + _GUID, usedforsecurity=False).digest()
    accepted = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(digest).decode(),
    }
    if protocols:
        accepted[_PROTOCOLS] = protocols[0]
    return Response(101, accepted, b"")


def split_token(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the bearer token among the subprotocols, and the other subprotocols as a header. Browsers cannot send
    Authorization with a WebSocket. The token is empty if there is none. Raises TokenProtocolError.
    """
    protocols = _split_protocols(headers)
    tokens = [item for item in protocols if item.startswith(_TOKEN_PREFIX)]
    others = [item for item in protocols if not item.startswith(_TOKEN_PREFIX)]
    if not tokens:
        return "", headers.get(_PROTOCOLS, "")
    if len(tokens) > 1:
        raise TokenProtocolError("multiple base64.bearer.authorization tokens specified")
    encoded = tokens[0].removeprefix(_TOKEN_PREFIX)
    try:
        if "=" in encoded or not re.fullmatch(r"[\w-]*", encoded, re.ASCII):
            raise TokenProtocolError("invalid base64.bearer.authorization token encoding")
        token = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise TokenProtocolError("invalid base64.bearer.authorization token") from None
    if token and not others:
        raise TokenProtocolError("missing additional subprotocol")
    return token, ",".join(others)


def _split_protocols(headers: Mapping[str, str]) -> list[str]:
    text = headers.get(_PROTOCOLS, "").strip()
    return [item.strip() for item in text.split(",")] if text else []


def text_frame(payload: bytes) -> bytes:
    """Return a whole text message as one frame."""
    return _build_frame(Opcode.TEXT, payload)


def pong_frame(payload: bytes) -> bytes:
    """Return the response to a ping."""
    return _build_frame(Opcode.PONG, payload)


def close_frame(status: int = NORMAL_CLOSURE) -> bytes:
    """Return the frame that ends the connection."""
    return _build_frame(Opcode.CLOSE, struct.pack("!H", status))


def _build_frame(opcode: Opcode, payload: bytes) -> bytes:
    size = len(payload)
    first = _FINAL | opcode
    if size <= 125:
        head = struct.pack("!BB", first, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, 126, size)
    else:
        head = struct.pack("!BBQ", first, 127, size)
    return head + payload


class FrameReader:
    """Reads the frames of a client. It keeps at most the head and payload of one ping, whatever a client sends."""

    def __init__(self) -> None:
        self._begun = b""
        """The beginning of a frame: an incomplete head, or an incomplete ping."""
        self._left = 0
        """Remaining bytes of a payload to drop."""

    def read(self, data: bytes) -> Iterator[ClientFrame]:
        """Read the next bytes of a client. Yields the pings and the end; bytes after the end are ignored."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        at, size = self._left, len(data)
        while at + 2 <= size:
            opcode, length = data[at] & 0x0F, data[at + 1]
            if length < _MASKED:
                yield ClientFrame(Opcode.CLOSE, b"", PROTOCOL_ERROR)
                return
            if opcode == Opcode.CLOSE:
                yield ClientFrame(Opcode.CLOSE, b"")
                return
            length -= _MASKED
            begin = at + (6 if length < 126 else 8 if length == 126 else 14)
            if begin > size:
                break
            if length >= 126:
                length = int.from_bytes(data[at + 2 : begin - 4], "big")
            elif opcode == Opcode.PING:
                if begin + length > size:
                    break
                yield ClientFrame(Opcode.PING, _unmask(data[begin : begin + length], data[begin - 4 : begin]))
            at = begin + length
        self._begun, self._left = data[at:], max(0, at - size)


def _unmask(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")
