"""The proxy for a server, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go programs read them.

server, environment ──▶ find_proxy() ──▶ the proxy's URL, or empty

Pure.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult

__all__ = ["find_proxy"]


def find_proxy(environ: Mapping[str, str], server: SplitResult) -> str:
    """Return the URL of the proxy for a server; empty: no proxy."""
    host = server.hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address and address.is_loopback):
        return ""
    name = f"{server.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if proxy and any(_is_exempt(host, address, rule.strip().lower()) for rule in exempt.split(",")):
        return ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _is_exempt(host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, rule: str) -> bool:
    if rule == "*":
        return True
    if not rule:
        return False
    if address is not None:
        try:
            return address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    domain = rule.lstrip("*").lstrip(".")
    return host.endswith(f".{domain}") or (host == domain and not rule.startswith("."))
