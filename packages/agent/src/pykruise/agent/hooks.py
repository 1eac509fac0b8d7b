"""preStop hooks: actions of a container before it is stopped.

preStop of a container ──▶ run_pre_stop(): exec through the runtime | HTTP GET at the pod's address | sleep

The hooks work as in the kubelet, except in three cases. The kubelet ignores the status of an HTTP response; here a
status outside 200 to 399 is a failure. For a tcpSocket handler the kubelet reports a failure; here such a hook does
nothing. If the server of an HTTPS hook responds without TLS, the kubelet and the agent send the request again over
HTTP, without the header Authorization; only the kubelet creates an event about this.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.agent.http_get import HttpAnswer, HttpGetError, NoTlsError, send_http_get

_USER_AGENT: Final = "kube-lifecycle/pykruise"


class HookError(Exception):
    """The hook failed; the container is stopped anyway."""


async def run_pre_stop(
    runtime: CriClient,
    container_id: str,
    handler: Mapping[str, Any],
    *,
    ports: Sequence[Mapping[str, Any]],
    ip: str,
    timeout_s: float,
) -> None:
    """Run the hook until it ends, for at most `timeout_s`. `container_id` is the id that the container runtime gave to
    the container. Raises HookError.
    """
    if command := (handler.get("exec") or {}).get("command"):
        await _run_command(runtime, container_id, command, timeout_s)
    elif get := handler.get("httpGet"):
        await _send_get(get, ports, ip, timeout_s)
    elif (seconds := (handler.get("sleep") or {}).get("seconds")) and isinstance(seconds, int):
        await asyncio.sleep(min(max(seconds, 0), timeout_s))


async def _run_command(
    runtime: CriClient, container_id: str, command: Sequence[str], timeout_s: float
) -> None:
    try:
        result = await runtime.exec_sync(container_id, command, timeout_s=timeout_s)
    except CriError as error:
        raise HookError(f"exec {command[0]}: {error}") from error
    if result.exit_code:
        said = (result.stderr or result.stdout).decode(errors="replace").strip()[:256]
        raise HookError(f"exec {command[0]}: exit code {result.exit_code}{f': {said}' if said else ''}")


async def _send_get(
    get: Mapping[str, Any], ports: Sequence[Mapping[str, Any]], ip: str, timeout_s: float
) -> None:
    host = get.get("host") or ip
    if not host:
        raise HookError("httpGet: the pod has no address")
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _request(get, host, resolve_port(get.get("port"), ports), timeout_s)
    except TimeoutError as error:
        raise HookError(f"httpGet: no response within {timeout_s:g} s") from error
    except (HttpGetError, ValueError) as error:
        raise HookError(f"httpGet: {error}") from error
    if not 200 <= answer.status < 400:
        raise HookError(f"httpGet: status {answer.status}")


async def _request(get: Mapping[str, Any], host: str, port: int, timeout_s: float) -> HttpAnswer:
    """Send the request; if the server responds without TLS, send it again over HTTP."""
    given = [(header.get("name", ""), header.get("value", "")) for header in get.get("httpHeaders") or ()]
    names = {name.lower() for name, _ in given}
    headers = given if "user-agent" in names else [("User-Agent", _USER_AGENT), *given]
    send = partial(send_http_get, host, port, path=str(get.get("path") or "/"), timeout_s=timeout_s)
    try:
        return await send(scheme=str(get.get("scheme") or "HTTP"), headers=headers)
    except NoTlsError:
        public = [(name, value) for name, value in headers if name.lower() != "authorization"]
        return await send(scheme="HTTP", headers=public)


def resolve_port(port: Any, ports: Sequence[Mapping[str, Any]]) -> int:
    """Return a port given by number (also as text), or by its name in the container. Raises ValueError."""
    if isinstance(port, int):
        return port
    for entry in ports:
        if entry.get("name") == port:
            return int(entry["containerPort"])
    text = str(port)
    if not text.isdecimal():
        raise ValueError(f"the container has no port {text!r}")
    return int(text)
