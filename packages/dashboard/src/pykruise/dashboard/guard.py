"""Checks of requests: the dashboard accepts requests of its own page and rejects those of other sites in the browser.

Request ──▶ Guard.find_refusal(): Host (the name of another site may resolve to this address), Origin, Sec-Fetch-Site,
the dashboard's own header

Pure.
"""

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from pykruise.kube.http.wire import WireRequest

OWN_HEADER: Final = "x-pykruise-dashboard"
"""Header of every POST. Other sites cannot add it without a CORS preflight request, which is always rejected."""

_OPEN: Final = "/healthz"
"""Path that the kubelet requests at the pod's address, after the base path."""


class Guard:
    """Checks requests. `hosts`: the allowed Host headers, with a port if it is not the default; empty allows all."""

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)

    def find_refusal(self, request: WireRequest) -> str:
        """Return the reason why a request is rejected; empty if it is accepted."""
        host = request.headers.get("host", "").lower()
        if not request.path.endswith(_OPEN) and self._hosts and host not in self._hosts:
            return (
                f"the dashboard does not serve the host name {host[:200]!r};"
                " to allow it, start the dashboard with --allowed-host"
            )
        origin = request.headers.get("origin", "")
        if origin and not self._is_own(origin, host):
            return "only the dashboard's own page may send this request"
        if "/api/" not in request.path:
            return ""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "only the dashboard's own page may send this request"
        if request.method == "POST" and OWN_HEADER not in request.headers:
            return f"the header {OWN_HEADER} is missing"
        return ""

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page loaded from this dashboard sent the request, perhaps through a proxy with an allowed name."""
        text = urlsplit(origin).netloc.lower()
        return bool(text) and (text == host or text in self._hosts)
