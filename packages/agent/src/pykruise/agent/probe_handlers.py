"""Runs one probe: a command in the container, an HTTP GET, a TCP connection or a gRPC health check.

core Probe, container, pod's address ──▶ run_probe() ──▶ (Succeeded | Failed, message); None: it could not run

The kubelet runs its probes in the same way. Other modules decide when a probe is due, and what its outcome means.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CallTimeoutError, CriError
from pykruise.agent.health_check import HealthCheckError, check_health
from pykruise.agent.hooks import resolve_port
from pykruise.agent.http_get import HttpGetError, send_http_get
from pykruise.agent.rules.probe_checks import FAILED, SUCCEEDED, read_timeout_s

_log = logging.getLogger(__name__)

Outcome = tuple[str, str]


async def run_probe(
    probe: Mapping[str, Any], runtime: CriClient, container_id: str, ip: str
) -> Outcome | None:
    """Return the result of the probe; None when it could not run, which proves nothing about the container."""
    limit_s = read_timeout_s(probe)
    try:
        if command := (probe.get("exec") or {}).get("command"):
            return await _run_command(runtime, container_id, command, limit_s)
        if (get := probe.get("httpGet")) is not None:
            return await _probe_http(get, ip, limit_s)
        if (tcp := probe.get("tcpSocket")) is not None:
            return await _probe_tcp(tcp, ip, limit_s)
        if (grpc := probe.get("grpc")) is not None:
            return await _probe_grpc(grpc, ip, limit_s)
    except (CriError, ValueError) as error:
        _log.info("a probe could not run: %s", error)
    return None


async def _run_command(runtime: CriClient, container_id: str, command: list[str], limit_s: float) -> Outcome:
    try:
        result = await runtime.exec_sync(container_id, command, timeout_s=limit_s)
    except CallTimeoutError:
        return FAILED, f"command timed out after {limit_s:g} s"
    if result.exit_code:
        return FAILED, result.stderr.decode(errors="replace")
    return SUCCEEDED, result.stdout.decode(errors="replace")


async def _probe_http(get: Mapping[str, Any], ip: str, limit_s: float) -> Outcome | None:
    host = get.get("host") or ip
    if not host:
        return None
    try:
        answer = await send_http_get(
            host,
            resolve_port(get.get("port"), ()),
            path=str(get.get("path") or "/"),
            scheme=str(get.get("scheme") or "HTTP"),
            headers=[
                (header.get("name", ""), header.get("value", "")) for header in get.get("httpHeaders") or ()
            ],
            timeout_s=limit_s,
        )
    except HttpGetError as error:
        return FAILED, str(error)
    body = answer.body.decode(errors="replace")
    if 200 <= answer.status < 400:
        return SUCCEEDED, body
    return FAILED, f"HTTP probe failed with statuscode: {answer.status}"


async def _probe_tcp(tcp: Mapping[str, Any], ip: str, limit_s: float) -> Outcome | None:
    host = tcp.get("host") or ip
    if not host:
        return None
    try:
        async with asyncio.timeout(limit_s):
            _, writer = await asyncio.open_connection(host, resolve_port(tcp.get("port"), ()))
    except TimeoutError:
        return FAILED, f"no connection within {limit_s:g} s"
    except OSError as error:
        return FAILED, str(error)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return SUCCEEDED, ""


async def _probe_grpc(grpc: Mapping[str, Any], ip: str, limit_s: float) -> Outcome | None:
    if not ip:
        return None
    try:
        status = await check_health(ip, int(grpc.get("port") or 0), str(grpc.get("service") or ""), limit_s)
    except HealthCheckError as error:
        return FAILED, str(error)
    return (SUCCEEDED if status == "SERVING" else FAILED), f"the gRPC health service reports {status}"
