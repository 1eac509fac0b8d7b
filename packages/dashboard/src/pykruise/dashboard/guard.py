"""Which requests are answered at all: those of this page, and not of another site in the same browser.

Request ──▶ Guard.refusal(): Host (a name that another site has given this address), Origin, Sec-Fetch-Site, own header

Pure.
"""

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from pykruise.kube.http.wire import WireRequest

OWN_HEADER: Final = "x-pykruise-dashboard"
"""Every POST has it: other sites cannot add one without being asked first (CORS), which is never allowed."""

_OPEN: Final = "/healthz"
"""Asked by kubelet, by the pod's address; what is before it is the base path."""


class Guard:
    """`hosts`: names under which it is asked, with the port where that is not the usual one; empty: any."""

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)

    def refusal(self, request: WireRequest) -> str:
        """Why a request is not answered; empty: it is."""
        host = request.headers.get("host", "").lower()
        if not request.path.endswith(_OPEN) and self._hosts and host not in self._hosts:
            return f"this is not a name of the dashboard: {host[:200]!r} (--allowed-host)"
        origin = request.headers.get("origin", "")
        if origin and not self._is_own(origin, host):
            return "only the dashboard's own page may ask"
        if "/api/" not in request.path:
            return ""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "only the dashboard's own page may ask"
        if request.method == "POST" and OWN_HEADER not in request.headers:
            return f"the header {OWN_HEADER} is missing"
        return ""

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page that was loaded from here asks: names of proxies count where they are allowed."""
        text = urlsplit(origin).netloc.lower()
        return bool(text) and (text == host or text in self._hosts)
