"""Messages whose long fields are cut while they come in: what is cut is never in memory as a whole.

HTTP/2 stream of an answer ──▶ Shortened ──▶ what grpclib reads: the same message, no field longer than LONGEST_FIELD

A command in a container may print without end, and runtimes hand on 16 MB of it. grpclib knows no limit for a message
and puts it together before it decodes it. It reads five bytes that say how long the message is, and then so many; this
stands in between, reads the message field by field, and says how long what it has kept is.
"""

import struct
from typing import Any, Final

LONGEST_FIELD: Final = 64 * 1024
"""Bytes that are kept of a text or of bytes in the message itself. Messages inside it are such fields too, so this is
for answers that have none."""

_HEAD: Final = struct.Struct(">?I")
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED_64: 8, _FIXED_32: 4}


class Shortened:
    """Stands for the stream of a call's answer. Raises ValueError for what is no protobuf message."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._kept: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def recv_data(self, size: int) -> bytes:
        """The head of a message; then all that is kept of it."""
        if (kept := self._kept) is not None:
            self._kept = None
            return kept
        head = bytes(await self._stream.recv_data(_HEAD.size))
        if not head:
            return head
        is_compressed, length = _HEAD.unpack(head)
        if is_compressed:
            return head  # which grpclib refuses
        self._kept = await self._message(length)
        return _HEAD.pack(False, len(self._kept))

    async def _message(self, length: int) -> bytes:
        kept = bytearray()
        left = length
        while left > 0:
            tag, raw = await self._varint()
            left -= len(raw)
            kept += raw
            kind = tag & 7
            if kind == _VARINT:
                _, raw = await self._varint()
                left -= len(raw)
                kept += raw
            elif kind in _FIXED:
                kept += await self._stream.recv_data(_FIXED[kind])
                left -= _FIXED[kind]
            elif kind == _BYTES:
                size, raw = await self._varint()
                if size > left - len(raw):
                    raise ValueError("a field is longer than its message")
                left -= len(raw) + size
                first = await self._stream.recv_data(min(size, LONGEST_FIELD))
                await self._drop(size - len(first))
                kept += _as_varint(len(first)) + first
            else:
                raise ValueError(f"no protobuf field is of type {kind}")
        return bytes(kept)

    async def _drop(self, size: int) -> None:
        while size > 0:
            piece = min(size, LONGEST_FIELD)
            await self._stream.recv_data(piece)
            size -= piece

    async def _varint(self) -> tuple[int, bytes]:
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
