"""JSON text as a Go program writes it, and the hash that Kubernetes takes of such bytes.

value ──▶ go_json() ──▶ bytes ──▶ bytes_hash() ──▶ number, recorded in annotations

Pure. Hashes that another manager or a kubelet recorded must come out the same here.
"""

import json
from typing import Any

from pykruise.kube.hashing import fnv32a

__all__ = ["bytes_hash", "go_json"]


def go_json(value: Any) -> bytes:
    """Compact, keys in their order, with `<`, `>`, `&` and the line separators escaped inside strings."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Only strings can hold these characters.
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()


def bytes_hash(data: bytes) -> int:
    """FNV-1a, 32 bit, of the bytes as Go prints them: `([]uint8)[110 117 108 108]`."""
    shown = " ".join(map(str, data))
    return fnv32a(f"([]uint8)[{shown}]".encode())
