"""Short hashes and random suffixes as Kubernetes writes them into names.

bytes ──▶ hash_fnv32() / hash_fnv32a() ──▶ decimal text ──▶ encode_safely() ──▶ "6b9f5c7d4f"-like text for a name

Pure: the caller passes a `random.Random`.
"""

import random

__all__ = ["ALPHABET", "draw_suffix", "encode_safely", "hash_bytes", "hash_fnv32", "hash_fnv32a", "hash_text"]

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""27 characters without vowels and similar-looking characters, so that no words occur by chance."""

_OFFSET = 2166136261
_PRIME = 16777619
_MASK = 0xFFFFFFFF


def hash_fnv32(data: bytes) -> int:
    """Return FNV-1, 32 bit: multiply, then xor. Used for the names of CloneSet revisions."""
    value = _OFFSET
    for byte in data:
        value = value * _PRIME & _MASK ^ byte
    return value


def hash_fnv32a(data: bytes) -> int:
    """Return FNV-1a, 32 bit: xor, then multiply. Used for hashes of pod and volume claim templates."""
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value


def hash_bytes(data: bytes) -> int:
    """Return FNV-1a, 32 bit, of the bytes as Go prints them: `([]uint8)[110 117 108 108]`."""
    shown = " ".join(map(str, data))
    return hash_fnv32a(f"([]uint8)[{shown}]".encode())


def encode_safely(data: bytes | str) -> str:
    """Replace each byte (in a str: each character) with the character of `ALPHABET` at its number modulo 27.

    This is the rule of Kubernetes' `rand.SafeEncodeString`.
    """
    numbers = data if isinstance(data, bytes) else map(ord, data)
    return "".join(ALPHABET[number % len(ALPHABET)] for number in numbers)


def hash_text(value: int) -> str:
    """Return a 32-bit hash as a name contains it: its decimal digits, safely encoded."""
    return encode_safely(str(value))


def draw_suffix(rng: random.Random, length: int = 5) -> str:
    """Return `length` random characters of `ALPHABET`, as `generateName` appends them (five)."""
    return "".join(rng.choices(ALPHABET, k=length))
