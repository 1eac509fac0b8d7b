"""The dashboard as a process: connection, caches, server, and shutdown.

DashboardOptions ──▶ run_dashboard(): HttpTransport ─ Sources ─ Feeds ─ LivePages ─ Server ─ HttpServer, until a
signal
"""

import asyncio
import logging
import os
import random
import secrets
import ssl
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.dashboard.access import DashboardUser, send_review
from pykruise.dashboard.assets import Assets
from pykruise.dashboard.feeds import Feeds
from pykruise.dashboard.guard import Guard
from pykruise.dashboard.mirror import MirrorTransport
from pykruise.dashboard.objects import views_of_all
from pykruise.dashboard.pages import LivePages, PageSources
from pykruise.dashboard.seals import Seal, key_of, own_key
from pykruise.dashboard.server import LIMITS, About, Server
from pykruise.dashboard.sessions import Door, LaptopDoor, Sessions, TokenDoor
from pykruise.dashboard.verdicts import Verdicts
from pykruise.kinds import use_stored_versions
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.connection import Connection
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.errors import KubeError
from pykruise.kube.http.server import HttpServer, find_local_host
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.program.process import stop_on_signals
from pykruise.kube.version import __version__
from pykruise.runtime.sources import Sources

_log = logging.getLogger(__name__)

AGENT: Final = "pykruise-dashboard"
_STOP_S: Final = 1.0


class DashboardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `pykruise dashboard`."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    """The only namespace to read. If empty, all namespaces are read, or only the context's namespace if the user has no
    permission to read all.
    """
    address: str = "127.0.0.1"
    port: int = 0
    is_shared: bool = False
    """Whether many people use the dashboard, each with their own token."""
    has_actions: bool = False
    allowed_hosts: tuple[str, ...] = ()
    base_path: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    session_key: Path | None = None
    """File with the key for logins that outlive the process; all replicas need the same key. None: with --shared a
    random key for each start, otherwise the key file of this user.
    """
    manager_namespace: str = "kruise-system"
    opens_browser: bool = False


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """A running dashboard."""

    port: int
    door: Door
    feeds: Feeds
    namespace: str
    url: str
    """URL without a token."""


async def run_dashboard(options: DashboardOptions, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. Raises CommandError, ConfigurationError, KubeError, OSError."""
    connection = await load(options.kubeconfig, context=options.context)
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    async with serve_dashboard(connection, options) as result:
        where = f"namespace {result.namespace}" if result.namespace else "all namespaces"
        if not isinstance(result.door, LaptopDoor):
            say(
                f"The dashboard of {connection.server} ({where}) is at {result.url}; people log in with their token."
            )
            await stop.wait()
            return
        say(f"The dashboard of {connection.server} ({where}):\n")
        link = _build_link(result, result.door)
        say(f"  {link}\n")
        if options.opens_browser:
            await asyncio.to_thread(webbrowser.open, link)
        if sys.stdin is not None and sys.stdin.isatty():
            say("The link works once. Press Enter for another link, Ctrl-C to stop.")
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _say_another, result, result.door, say)
        await stop.wait()


def _say_another(value: Dashboard, door: LaptopDoor, say: Callable[[str], None]) -> None:
    if sys.stdin.readline():
        say(f"  {_build_link(value, door)}\n")


def _build_link(value: Dashboard, door: LaptopDoor) -> str:
    """Return the link. The token is after the #: browsers never send this part; the script of the page reads it."""
    return f"{value.url}#token={door.renew_token()}"


@asynccontextmanager
async def serve_dashboard(connection: Connection, options: DashboardOptions) -> AsyncIterator[Dashboard]:
    """Serve a dashboard within the block. Raises CommandError, OSError."""
    _check(options)
    clock = asyncio.get_running_loop().time
    async with AsyncExitStack() as stack:
        transport = use_stored_versions(HttpTransport(connection, user_agent=AGENT))
        stack.push_async_callback(transport.close)
        client = Client(transport, user_agent=AGENT)
        asking = Client(transport, user_agent=AGENT, retry=RetryPolicy(reads=1, total_s=5.0))
        namespace = options.namespace or await _choose_namespace(asking, connection, options)
        sources = Sources(client, clock=read_system_clock, rng=random.Random(), namespace=namespace)
        caches = {resource: sources.find_cache(views) for resource, views in views_of_all().items()}
        feeds = Feeds(caches, clock=read_system_clock)
        mirror = MirrorTransport(transport, caches, clock=clock)
        door: Door = (
            TokenDoor(asking, connection, clock=clock)
            if options.is_shared
            else LaptopDoor(asking, await _read_user(asking))
        )
        verdicts = Verdicts(asking.replace_transport(mirror), feeds.take, clock=read_system_clock)
        feeds.judge_with(verdicts)
        key, is_key_kept = _read_session_key(options)
        seal = Seal(key, f"{connection.server} {options.is_shared}", is_key_kept=is_key_kept)
        sessions = Sessions(door, clock=clock, seal=seal)
        stack.push_async_callback(sessions.close)
        around = PageSources(
            caches=caches,
            feeds=feeds,
            client=asking.replace_transport(mirror),
            clock=read_system_clock,
            manager_namespace=options.manager_namespace,
        )
        about = About(
            version=__version__,
            cluster=connection.context or connection.server,
            mode="cluster" if options.is_shared else "laptop",
            namespace=namespace,
            has_actions=options.has_actions,
        )
        background = await stack.enter_async_context(Background())
        background.start(sources.run(), name="caches")
        background.start(feeds.run(), name="waiting pods")
        background.start(verdicts.run(), name="verdicts")
        pages = LivePages(around, background.start, has_actions=options.has_actions, key=seal.ticket_key)
        server = Server(pages, sessions, Assets(), about, base_path=options.base_path)
        http = HttpServer(server, limits=LIMITS)
        tls = (
            _make_tls_source(options.tls_cert, options.tls_key)
            if options.tls_cert and options.tls_key
            else None
        )
        port = await http.start(options.address, options.port, tls=tls)
        stack.push_async_callback(http.stop, grace_s=_STOP_S)
        server.guard = Guard(_list_allowed_hosts(port, options))
        host = find_local_host(options.address)
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if tls is not None else "http"
        yield Dashboard(
            port=port,
            door=door,
            feeds=feeds,
            namespace=namespace,
            url=f"{scheme}://{shown}:{port}{options.base_path.rstrip('/')}/",
        )


class Background:
    """Tasks that are cancelled at the end of the block. If a task fails, the error is logged and other tasks go on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Background":
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, work: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Run `work` as a task, concurrently with the other tasks."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)


def _read_session_key(options: DashboardOptions) -> tuple[bytes, bool]:
    """Return the key, and whether the dashboard has the same key after its next start."""
    if options.session_key is not None:
        return key_of(options.session_key), True
    if options.is_shared:
        return secrets.token_bytes(32), False
    return own_key(Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")), True


def _check(options: DashboardOptions) -> None:
    if not options.is_shared and options.address not in ("127.0.0.1", "::1", "localhost"):
        raise CommandError(
            f"--address {options.address}: with your own kubeconfig, the dashboard is served only on this machine;"
            " to serve others, add --shared, and each user logs in with a token"
        )
    if bool(options.tls_cert) != bool(options.tls_key):
        raise CommandError("give both --tls-cert and --tls-key, or none of them")
    if options.base_path and not options.base_path.startswith("/"):
        raise CommandError(f"--base-path {options.base_path}: must begin with a slash")


def _list_allowed_hosts(port: int, options: DashboardOptions) -> set[str]:
    """Return the allowed names in the Host header; empty allows any (only if each user logs in with a token)."""
    if options.is_shared and not options.allowed_hosts:
        return set()
    return {*options.allowed_hosts, *(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))}


async def _choose_namespace(client: Client, connection: Connection, options: DashboardOptions) -> str:
    """Return an empty text (all namespaces) if the user may read all, otherwise the context's namespace."""
    if options.is_shared:
        return ""
    spec = {"resourceAttributes": {"verb": "list", "resource": "pods"}}
    try:
        answer = await send_review(
            client, f"{_AUTHORIZATION}/selfsubjectaccessreviews", "SelfSubjectAccessReview", spec
        )
    except KubeError as error:
        raise CommandError(f"the request to the cluster failed: {error}") from error
    return "" if (answer.get("status") or {}).get("allowed") else connection.namespace


_AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"


async def _read_user(client: Client) -> DashboardUser:
    """Return the user of the kubeconfig. Older API servers cannot report it."""
    with suppress(KubeError):
        answer = await send_review(
            client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "SelfSubjectReview", {}
        )
        name = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
        if name:
            return DashboardUser(name=str(name))
    return DashboardUser(name="you")


def _make_tls_source(cert: Path, key: Path) -> Callable[[], ssl.SSLContext]:
    """Return a function that returns the TLS context for a new connection. It reads the files again after they were
    replaced. Raises OSError, CommandError.
    """

    def read() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(cert, key)
        return context

    try:
        known = [(cert.stat().st_mtime, read())]
    except ssl.SSLError as error:
        raise CommandError(f"{cert}, {key}: the files are not a certificate and its key: {error}") from error

    def current() -> ssl.SSLContext:
        with suppress(OSError, ssl.SSLError):  # a file is incomplete: the old context stays in use
            if (changed := cert.stat().st_mtime) != known[0][0]:
                known[0] = (changed, read())
        return known[0][1]

    return current
