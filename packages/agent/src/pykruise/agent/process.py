"""The agent as a process: its start, its HTTP servers, and its end.

AgentSettings, Connection ──▶ run_process(): server for probes and metrics ─ runtimes ─ Agent ─ SIGTERM
"""

import asyncio
import functools
import logging
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.agent.agent import Agent
from pykruise.agent.credential_plugins import load_providers, read_docker_configuration
from pykruise.agent.cri.runtimes import find_runtimes
from pykruise.agent.flags import AgentSettings
from pykruise.agent.keyring import Provider
from pykruise.agent.rules.versions import use_stored_versions
from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.config.connection import Connection
from pykruise.kube.errors import ConfigurationError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.program.health import Check, make_responder
from pykruise.kube.program.metrics import (
    cache_metrics,
    collect_controller_metrics,
    collect_queue_metrics,
    collect_request_metrics,
    make_gauge,
    make_metrics_responder,
)
from pykruise.kube.program.process import DIAGNOSIS, return_memory, run_beside_servers, stop_on_signals
from pykruise.kube.program.serving import PathAnswer, PlainServer, Query, Responder
from pykruise.kube.version import __version__

_log = logging.getLogger(__name__)

USER_AGENT = "kruise-daemon"
POOL = 4
"""Maximum number of connections for requests; each watch has a separate connection."""


async def run_process(connection: Connection, settings: AgentSettings) -> None:
    """Run the agent until SIGTERM or SIGINT.

    Raises ConfigurationError when no container runtime responds, OSError when an address is in use.
    """
    return_memory()
    for note in settings.notes:
        _log.warning("%s", note)
    async with AsyncExitStack() as stack:
        transport = HttpTransport(connection, pool=POOL, user_agent=USER_AGENT)
        stack.push_async_callback(transport.close)
        metered = MeteredTransport(transport)
        rng = random.Random()
        client = Client(
            use_stored_versions(metered), user_agent=USER_AGENT, limiter=Limiter(start=4, maximum=8), rng=rng
        )
        runtimes = await find_runtimes(settings.runtime_dir, socket_file=settings.socket_file)
        stack.callback(runtimes.close)
        providers = await _load_all_providers(settings)
        agent = Agent(client, runtimes, settings, providers=providers, rng=rng)
        stop_on_signals(agent.stop)
        _log.info("this is the agent of node %s, version %s", settings.node, __version__)
        servers = _make_servers(agent, metered, settings, urlsplit(connection.server).netloc)
        await run_beside_servers(agent.run(), servers)


async def _load_all_providers(settings: AgentSettings) -> list[Provider]:
    """Return the providers of the node's own credentials. An invalid file is only logged, because most images need no
    credentials.
    """
    home = Path(os.environ.get("HOME") or "/")
    folder = Path(os.environ.get("DOCKER_CONFIG") or home / ".docker")
    providers: list[Provider] = [
        read_docker_configuration([folder / "config.json", Path("/.docker/config.json")])
    ]
    try:
        providers += await asyncio.to_thread(
            load_providers, settings.plugin_config, settings.plugin_folder, monotonic=time.monotonic
        )
    except ConfigurationError as error:
        _log.error("%s", error)
    return providers


def _make_servers(
    agent: Agent, metered: MeteredTransport, settings: AgentSettings, host: str
) -> list[PlainServer]:
    made: list[PlainServer] = []
    if settings.serving is not None:
        metrics = CollectorRegistry(auto_describe=False)
        metrics.register(_AgentCollector(agent, metered, host))
        prometheus_client.ProcessCollector(registry=metrics)
        paths: Mapping[str, Responder] = {
            "/healthz": functools.partial(_answer_health, agent),
            "/metrics": make_metrics_responder(metrics),
        }
        made.append(PlainServer("probes and metrics", settings.serving, paths))
    if settings.diagnosis is not None:
        made.append(PlainServer("thread dumps", settings.diagnosis, DIAGNOSIS))
    return made


def _answer_health(agent: Agent, rest: str, query: Query) -> PathAnswer:
    result = agent.list_problems()
    checks: dict[str, Check] = {name: functools.partial(result.__getitem__, name) for name in result}
    return make_responder("healthz", checks)(rest, query)


class _AgentCollector(Collector):
    """Converts stats into metrics at each scrape."""

    def __init__(self, agent: Agent, metered: MeteredTransport, host: str) -> None:
        self._agent = agent
        self._metered = metered
        self._host = host

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at this time the event loop does not run yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. Called where the event loop runs."""
        parts = self._agent.parts
        labels = {part.name: part.name for part in parts}
        yield from collect_controller_metrics(
            {part.name: part.controller.read_stats() for part in parts}, labels
        )
        yield from collect_queue_metrics(
            {part.name: part.controller.queue.read_stats() for part in parts}, labels
        )
        yield from cache_metrics({part.name: part.cache.read_stats() for part in parts})
        yield from collect_request_metrics(self._metered, self._host)
        yield make_gauge(
            "pykruise_build_info", "1, with the version as a label.", ["version"], [([__version__], 1)]
        )
