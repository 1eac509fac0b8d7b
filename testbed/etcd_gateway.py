"""Requests to etcd itself, in the JSON that its client port accepts beside gRPC."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from testbed.processes import HOST, REQUEST_SECONDS

# Key by which API servers share the revision up to which the history is compacted.
COMPACTED = b"compact_rev_key"


def compact(port: int) -> None:
    """Compact the history up to the current revision, and record it for API servers as their own compactor does."""
    revision = int(_post(port, "range", {"key": _encode(COMPACTED)})["header"]["revision"])
    _post(port, "put", {"key": _encode(COMPACTED), "value": _encode(str(revision).encode())})
    _post(port, "compaction", {"revision": str(revision)})


def _post(port: int, what: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    request = urllib.request.Request(
        f"http://{HOST}:{port}/v3/kv/{what}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
        result: Mapping[str, Any] = json.load(answer)
        return result


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode()
