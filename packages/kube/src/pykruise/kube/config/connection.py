"""Address and credentials of one API server: the values that a transport works with.

kube/config/kubeconfig.py (files) or a test or the sandbox ──▶ Connection ──▶ kube/http/transport.py
                                                               └── Credentials: read_headers(), refresh() after a 401

Only `RenewedCredentials` changes with time: it reads tokens and certificates again before they expire, in a thread, one
at a time.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pykruise.kube.clock import Clock, Instant, read_system_clock
from pykruise.kube.errors import ConfigurationError

__all__ = [
    "READ_S",
    "Connection",
    "Credentials",
    "Material",
    "RenewedCredentials",
    "StaticCredentials",
    "make_bearer",
]

_log = logging.getLogger(__name__)

READ_S = 60.0
"""Longest read of credentials in seconds, unless a person attends it."""

_RETRY_S = 10.0


class Credentials(Protocol):
    """Identity of the client, in headers and TLS; renewed when necessary."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context to use now, if the client certificate can change; None: use that of the Connection."""
        ...

    async def read_headers(self) -> Mapping[str, str]:
        """Return the headers for one request, renewed when they are about to expire.

        Raises ConfigurationError when no credentials have ever been read, for example because a plugin fails.
        """
        ...

    async def refresh(self, *, rejected: Mapping[str, str]) -> bool:
        """Renew the credentials after the server responded with 401 to the headers `rejected` (of `read_headers()`).
        Return whether they changed.
        """
        ...


class StaticCredentials:
    """Credentials that never change: a token, a password, or only the Connection's client certificate."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})

    @property
    def tls(self) -> ssl.SSLContext | None:
        """None: use the TLS context of the Connection."""
        return None

    async def read_headers(self) -> Mapping[str, str]:
        """Return the fixed headers."""
        return self._headers

    async def refresh(self, *, rejected: Mapping[str, str]) -> bool:
        """Return False: there are no other credentials."""
        return False


def make_bearer(token: str) -> StaticCredentials:
    """Return credentials with a fixed token."""
    return StaticCredentials({"Authorization": f"Bearer {token}"})


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials as read at one time."""

    headers: Mapping[str, str] = {}
    tls: ssl.SSLContext | None = None
    expires: Instant | None = None
    """Expiry; None: unknown, so a 401 or a change of the file shows that the credentials have expired."""


class RenewedCredentials:
    """Credentials that are read again when they are about to expire, every `every_s`, and after a 401.

    `read` blocks and runs in a thread, one call at a time. When it fails, the previous credentials stay in use (the
    server decides whether they are still valid) and the read is repeated after 10 s. A plugin that hangs is treated as
    failed after `timeout_s` (None: never). A second 401 within 5 s causes no further read.
    """

    def __init__(
        self,
        read: Callable[[], Material],
        *,
        clock: Clock = read_system_clock,
        every_s: float | None = None,
        current: Material | None = None,
        timeout_s: float | None = READ_S,
    ) -> None:
        self._read = read
        self._clock = clock
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._current = current
        self._due: Instant | None = None
        self._last_refresh = float("-inf")
        if current is not None:
            self._due = self._compute_due_time(current)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context of a certificate that `read` returned."""
        return self._current.tls if self._current else None

    async def read_headers(self) -> Mapping[str, str]:
        """Return the current headers. Reads new credentials first when there are none, or when it is time to renew
        them.
        """
        if self._current is None or self._is_due():
            async with self._lock:
                if self._current is None or self._is_due():
                    return (await self._read_again()).headers
        return self._current.headers

    async def refresh(self, *, rejected: Mapping[str, str]) -> bool:
        """Read again, unless another task has just done so. Return whether the credentials changed."""
        async with self._lock:
            before = self._current
            if before is None or before.headers is not rejected:
                return True
            if self._clock() - self._last_refresh < 5.0:
                return False
            self._last_refresh = self._clock()
            after = await self._read_again()
            # A plugin may return the same token again, or a file may not have changed: then repeating the request is
            # useless.
            return after.headers != before.headers or after.tls is not before.tls

    def _is_due(self) -> bool:
        return self._due is not None and self._clock() >= self._due

    def _compute_due_time(self, material: Material) -> Instant | None:
        now = self._clock()
        candidates = []
        if self._every_s is not None:
            candidates.append(now + self._every_s)
        if material.expires is not None:
            candidates.append(now + max(5.0, 0.9 * (material.expires - now)))
        return min(candidates, default=None)

    async def _read_again(self) -> Material:
        try:
            async with asyncio.timeout(self._timeout_s):
                material = await asyncio.to_thread(self._read)
        except (ConfigurationError, TimeoutError) as err:
            if isinstance(err, TimeoutError):
                err = ConfigurationError(f"credentials were not loaded within {self._timeout_s:g} s")
            if self._current is None:
                raise err from None
            _log.warning("the credentials could not be renewed, and the old credentials stay in use: %s", err)
            self._due = self._clock() + _RETRY_S
            return self._current
        self._current = material
        self._due = self._compute_due_time(material)
        return material


@dataclass(frozen=True)
class Connection:
    """Address and credentials of one API server.

    `ssl_context` is None for plain http. `server_name` is the name in the server's certificate when it is not the host
    of `server`. `headers` are sent with every request, in addition to those of the credentials (impersonation). `proxy`
    is an http:// or https:// URL, or empty. `namespace` is the default namespace of the context. `source` describes
    where the connection was configured, for people; `context` is the name of the kubeconfig's context, empty without
    one.
    """

    server: str
    ssl_context: ssl.SSLContext | None = None
    credentials: Credentials = field(default_factory=StaticCredentials)
    server_name: str = ""
    headers: Sequence[tuple[str, str]] = ()
    proxy: str = ""
    namespace: str = "default"
    source: str = ""
    context: str = ""
