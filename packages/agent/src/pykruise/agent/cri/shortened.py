"""Shortens the long fields of a message while the message arrives, so that it is never completely in memory.

HTTP/2 stream of a response ──▶ Shortened ──▶ grpclib, which reads the same message with shorter fields

A command in a container may print without end, and runtimes pass on up to 16 MB of its output. grpclib has no limit
for a message and collects it before decoding. It reads five bytes with the length of the message, and then that many
bytes. This class is in between: it reads the message field by field, and reports the length of the part that it has
kept.
"""

import struct
from typing import Any, Final

LONGEST_FIELD: Final = 64 * 1024
"""Maximum number of bytes that are kept of a string or bytes field, unless the caller needs more. Nested messages are
encoded like such fields, so this works only for responses without nested messages.
"""

_HEAD: Final = struct.Struct(">?I")
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED_64: 8, _FIXED_32: 4}


class Shortened:
    """Replaces the stream of a call's response. Raises ValueError if the data is not a protobuf message."""

    def __init__(self, stream: Any, *, longest: int = LONGEST_FIELD) -> None:
        self._stream = stream
        self._longest = longest
        self._kept: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def recv_data(self, size: int) -> bytes:
        """Return the head of a message; at the next call, the kept part of the message."""
        if (kept := self._kept) is not None:
            self._kept = None
            return kept
        head = bytes(await self._stream.recv_data(_HEAD.size))
        if not head:
            return head
        is_compressed, length = _HEAD.unpack(head)
        if is_compressed:
            return head  # grpclib rejects it
        self._kept = await self._read_message(length)
        return _HEAD.pack(False, len(self._kept))

    async def _read_message(self, length: int) -> bytes:
        kept = bytearray()
        left = length
        while left > 0:
            tag, raw = await self._read_varint()
            left -= len(raw)
            kept += raw
            kind = tag & 7
            if kind == _VARINT:
                _, raw = await self._read_varint()
                left -= len(raw)
                kept += raw
            elif kind in _FIXED:
                kept += await self._stream.recv_data(_FIXED[kind])
                left -= _FIXED[kind]
            elif kind == _BYTES:
                size, raw = await self._read_varint()
                if size > left - len(raw):
                    raise ValueError("a field is longer than its message")
                left -= len(raw) + size
                first = await self._stream.recv_data(min(size, self._longest))
                await self._skip(size - len(first))
                kept += _as_varint(len(first)) + first
            else:
                raise ValueError(f"no protobuf field is of type {kind}")
        return bytes(kept)

    async def _skip(self, size: int) -> None:
        while size > 0:
            piece = min(size, LONGEST_FIELD)
            await self._stream.recv_data(piece)
            size -= piece

    async def _read_varint(self) -> tuple[int, bytes]:
        value, raw = 0, b""
        while len(raw) < 10:
            byte = await self._stream.recv_data(1)
            if not byte:
                raise ValueError("a message ends within a field")
            value |= (byte[0] & 0x7F) << (7 * len(raw))
            raw += byte
            if not byte[0] & 0x80:
                return value, raw
        raise ValueError("a number has more than ten bytes")


def _as_varint(number: int) -> bytes:
    buffer = bytearray()
    while number > 0x7F:
        buffer.append(number & 0x7F | 0x80)
        number >>= 7
    buffer.append(number)
    return bytes(buffer)
