"""A transport that counts what goes through it: requests by verb and resource.

Client ──▶ MeteredTransport ──▶ any Transport

What a manager asks of an API server is its cost to the cluster; benches, the demo and metrics read it here.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

from pykruise.kube.transport import Response, Transport


class MeteredTransport:
    """Counts requests as `VERB resource[/subresource]`, such as `PATCH pods/status`; streams as `WATCH`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.requests: Counter[str] = Counter()

    @property
    def writes(self) -> int:
        """Everything but reads and watches."""
        return sum(count for what, count in self.requests.items() if not what.startswith(("GET ", "WATCH ")))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Count and pass on."""
        self.requests[f"{method} {_resource(path)}"] += 1
        return await self._inner.request(
            method, path, query=query, headers=headers, body=body, timeout_s=timeout_s
        )

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Count and pass on."""
        self.requests[f"WATCH {_resource(path)}"] += 1
        return self._inner.stream(path, query=query, headers=headers, idle_timeout_s=idle_timeout_s)

    async def close(self) -> None:
        """Close the inner one."""
        await self._inner.close()


def _resource(path: str) -> str:
    """`/apis/apps/v1/namespaces/x/deployments/web/scale` is `deployments/scale`; other paths stay."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        rest = parts[2:]
    elif parts[0] == "apis":
        rest = parts[3:]
    else:
        return path
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return path
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
