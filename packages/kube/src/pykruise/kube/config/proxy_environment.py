"""The proxy for a server, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go programs read them.

server, environment ──▶ find_proxy() ──▶ the proxy's URL, or empty

Pure. The rules of NO_PROXY are those of golang.org/x/net/http/httpproxy.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult

__all__ = ["find_proxy"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORTS: Final = {"http": 80, "https": 443}


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
    if not proxy:
        return ""
    port = str(_PORTS.get(server.scheme, "") if server.port is None else server.port)
    if any(_is_exempt(host, address, port, rule.strip().lower()) for rule in exempt.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_exempt(host: str, address: _Address | None, port: str, rule: str) -> bool:
    """Whether a rule of NO_PROXY exempts this server. `foo.com` includes foo.com and its subdomains, `.foo.com` and
    `*.foo.com` only the subdomains. A rule with a port exempts only this port.
    """
    if rule == "*":
        return True
    name, rule_port = _split_port(rule)
    if not name or rule_port not in ("", port):
        return False
    network = _parse_network(name)
    if address is not None or network is not None:
        return address is not None and network is not None and address in network
    if name.startswith("*."):
        name = name[1:]
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(rule: str) -> tuple[str, str]:
    """Return the host and the port of a rule; without a port, the whole rule and an empty string."""
    host, colon, port = rule.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    if not colon or ":" in host or "/" in rule:
        return rule, ""
    return host, port


def _parse_network(name: str) -> _Network | None:
    """Return the network of a CIDR, or the network that contains only this address; None: a domain. Go programs ignore
    a rule with a netmask such as `10.0.0.0/255.0.0.0`.
    """
    if "." in name.partition("/")[2]:
        return None
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        return None
