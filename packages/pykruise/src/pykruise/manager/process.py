"""A manager as a process: what it is made of, how it starts, how it ends, and with which exit code.

Settings, Connection ──▶ run_process(): transports ─ election ─ Manager ─ webhooks ─ probes ─ metrics ─ watchdog

    0   stopped by SIGTERM or SIGINT, writes in flight are done, the lease is given back
    1   the lease was lost (the pod starts anew as a standby), or a second signal came
    70  the event loop stood still (watchdog)
"""

import asyncio
import ctypes
import gc
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from urllib.parse import urlsplit

import msgspec
import orjson
from prometheus_client.registry import CollectorRegistry

from pykruise.kube.client import Client
from pykruise.kube.clock import system_clock
from pykruise.kube.connection import Connection
from pykruise.kube.event_batching import AT_LEISURE
from pykruise.kube.http import HttpTransport
from pykruise.kube.leases import LeaderElector
from pykruise.kube.metered import MeteredTransport
from pykruise.manager.health import health_paths
from pykruise.manager.manager import Manager
from pykruise.manager.metrics import metrics_responder, registry
from pykruise.manager.serving import Answer, PlainServer, Query
from pykruise.manager.settings import ServingSettings, Settings
from pykruise.manager.state_metrics import state_registry
from pykruise.manager.watchdog import Watchdog
from pykruise.manager.webhooks import Webhooks
from pykruise.pods.in_place import has_resize

__all__ = ["USER_AGENT", "identity", "run_process"]

_log = logging.getLogger(__name__)

USER_AGENT = "kruise-manager"

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MALLOC = {_M_MMAP_THRESHOLD: 128 * 1024, _M_TRIM_THRESHOLD: 128 * 1024, _M_ARENA_MAX: 2}

SWITCH_S = 0.001
"""How soon the loop gets the interpreter back from a thread with long work: it asks for it at each of its turns."""


async def run_process(connection: Connection, settings: Settings) -> None:
    """Run a manager until SIGTERM or SIGINT. Raises LeaseLostError, OSError for an address in use, ApiError when
    the cluster refuses the credentials.
    """
    sys.setswitchinterval(SWITCH_S)
    _return_memory()
    async with AsyncExitStack() as stack:
        transport = HttpTransport(connection, user_agent=USER_AGENT)
        stack.push_async_callback(transport.close)
        metered = MeteredTransport(transport)
        rng = random.Random()
        client = Client(metered, user_agent=USER_AGENT, rng=rng)
        settings = await _fitted(client, settings)
        for note in settings.notes:
            _log.warning("%s", note)
        elector = None
        if settings.election.enabled:
            # Connections and limits of its own: a busy manager must not miss its renewals.
            apart = HttpTransport(
                connection, pool=2, timeout_s=settings.election.renew_s, user_agent=USER_AGENT
            )
            stack.push_async_callback(apart.close)
            name = identity()
            _log.info("this manager is %s", name)
            elector = _elector(name, Client(apart, user_agent=USER_AGENT, rng=rng), settings, rng)
        webhooks = _webhooks(client, settings, rng) if settings.webhook.enabled else None
        manager = Manager(
            client,
            settings=settings,
            components=[webhooks] if webhooks is not None else [],
            elector=elector,
            rng=rng,
            freeze_heap=True,
            pace=AT_LEISURE,
        )
        metrics = registry(manager, metered, host=urlsplit(connection.server).netloc)
        if webhooks is not None:
            webhooks.register(metrics)
        servers = _servers(manager, metrics, settings.serving)
        _stop_on_signals(manager)
        if settings.watchdog_s > 0:
            watchdog = Watchdog(timeout_s=settings.watchdog_s)
            watchdog.start()
            stack.callback(watchdog.stop)
        await _together(manager, servers)


def _return_memory() -> None:
    """Have large buffers given back to the system as soon as they are free, where the C library is glibc.

    It learns from the first large one that is freed to keep the others: the buffers of TLS, 256 KiB a connection.
    """
    with suppress(AttributeError, OSError, TypeError):
        adjust = ctypes.CDLL(None).mallopt
        for option, value in _MALLOC.items():
            adjust(option, value)


async def _together(manager: Manager, servers: Sequence[PlainServer]) -> None:
    """The manager, and beside it servers that tell how it is until its very end."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for server in servers:
                tasks.create_task(server.run(), name=server.name)
            await manager.run()
            for server in servers:
                await server.stop()
    except BaseExceptionGroup as group:
        # One cause is what a person wants to read.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


async def _fitted(client: Client, settings: Settings) -> Settings:
    """Settings that depend on what the API server can do; also the first request, which tells what is wrong."""
    version = orjson.loads(await client.get_path("/version"))
    git_version = str(version.get("gitVersion") or "")
    _log.info("the cluster is Kubernetes %s", git_version)
    # Discovery, not the version: vendors write versions as they like, and clusters are upgraded in steps.
    is_served = has_resize(orjson.loads(await client.get_path("/api/v1")))
    return msgspec.structs.replace(settings, uses_resize=is_served)


def identity() -> str:
    """Who this process is in an election: `<hostname>_<uuid>`, as OpenKruise names itself."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _elector(name: str, client: Client, settings: Settings, rng: random.Random) -> LeaderElector:
    election = settings.election
    return LeaderElector(
        client,
        namespace=election.namespace,
        name=election.name,
        identity=name,
        lease_s=election.lease_s,
        renew_s=election.renew_s,
        retry_s=election.retry_s,
        clock=system_clock,
        rng=rng,
        now=_time_that_runs_on,
    )


def _time_that_runs_on() -> float:
    """Seconds that also count while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _stop_on_signals(manager: Manager) -> None:
    """The first signal begins a graceful end, a second one ends at once."""
    loop = asyncio.get_running_loop()
    signals: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        signals.append(number)
        if len(signals) > 1:
            _log.error("%s again: ending at once", number.name)
            os._exit(1)
        _log.info("%s: finishing what is under way", number.name)
        manager.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


def _webhooks(client: Client, settings: Settings, rng: random.Random) -> Webhooks:
    """Over a client that writes whoever leads: every replica keeps certificates and configurations up."""
    bind = settings.webhook.bind
    if bind is None:
        return Webhooks(client, settings=settings, rng=rng)
    return Webhooks(client, settings=settings, bind=bind.host or "0.0.0.0", port=bind.port, rng=rng)


def _servers(manager: Manager, metrics: CollectorRegistry, serving: ServingSettings) -> list[PlainServer]:
    made: list[PlainServer] = []
    if serving.health is not None:
        made.append(PlainServer("probes", serving.health, health_paths(manager)))
    if serving.metrics is not None:
        paths = {"/metrics": metrics_responder(metrics)}
        if serving.state:
            paths["/state-metrics"] = metrics_responder(
                state_registry(manager, namespaces=serving.state_namespaces)
            )
        made.append(PlainServer("metrics", serving.metrics, paths))
    if serving.diagnosis is not None:
        paths = {"/debug/pprof/threads": _threads, "/debug/pprof/memory": _memory}
        made.append(PlainServer("thread dumps", serving.diagnosis, paths))
    return made


def _threads(_rest: str, _query: Query) -> Answer:
    """Stacks of all threads and of all tasks of the event loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    for task in asyncio.all_tasks():
        lines = "".join("".join(traceback.format_stack(frame)) for frame in task.get_stack(limit=5))
        parts.append(f"task {task.get_name()}:\n{lines}")
    return Answer("\n".join(parts))


def _memory(_rest: str, _query: Query) -> Answer:
    """What the garbage collector counts."""
    figures: Mapping[str, object] = {
        "collected": gc.get_stats(),
        "counts": gc.get_count(),
        "frozen": gc.get_freeze_count(),
        "tracked": len(gc.get_objects()),
    }
    return Answer(
        orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode() + "\n", content_type="application/json"
    )
