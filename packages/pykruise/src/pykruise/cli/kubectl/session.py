"""State of one command: its cluster, its namespace and its output.

CommandCall, Surroundings ──▶ Session ──▶ make_client(), read_mapper()
                                      └──▶ find() (resources.py), printer_of() (printing.py)

A session connects at the first request: a command that only reads a file needs no cluster.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import msgspec

from pykruise.cli.kubectl.command import GLOBAL
from pykruise.cli.kubectl.discovery import Mapper, read_served
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.terminal_text import escape_terminal
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Transport
from pykruise.kube.client.warnings import WarningTransport
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.config.kubeconfig import Overrides


class Reached(Protocol):
    """A connected cluster."""

    @property
    def transport(self) -> Transport: ...
    @property
    def namespace(self) -> str:
        """Namespace of the kubeconfig's context."""
        ...


class ClusterConnection(msgspec.Struct, frozen=True):
    """A connected cluster; implements Reached."""

    transport: Transport
    namespace: str


async def connect(call: CommandCall) -> Reached:
    """Connect to the cluster of the global flags and the kubeconfig. Raises ConfigurationError."""
    from pykruise.kube.config.kubeconfig import load
    from pykruise.kube.http.transport import HttpTransport

    connection = await load(
        call.text("kubeconfig") or None,
        call.text("context") or None,
        overrides=overrides_of(call),
        prefers_files=True,
    )
    timeout_s = call.seconds("request-timeout") or 30.0
    return ClusterConnection(HttpTransport(connection, timeout_s=timeout_s), connection.namespace)


def list_global_arguments(call: CommandCall) -> list[str]:
    """Global flags of a command line as arguments for kubectl, without the namespace."""
    arguments = []
    for flag in GLOBAL:
        if flag.name not in call.given or flag.name == "namespace":
            continue
        value = call.values[flag.name]
        values = value if isinstance(value, tuple) else (value,)
        arguments += [f"--{flag.name}={_as_text(item)}" for item in values]
    return arguments


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}s" if isinstance(value, float) else str(value)


TRACED_FROM = 6
"""Verbosity from which requests are logged."""

_OF_CLUSTER = ("server", "certificate-authority", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
_OF_USER = ("client-certificate", "client-key", "token", "username", "password", "as", "as-uid")


def overrides_of(call: CommandCall) -> Overrides:
    """Values of global flags that replace the kubeconfig's. Relative paths start at the working directory."""

    def given(names: tuple[str, ...]) -> dict[str, object]:
        return {
            name: str(Path(call.text(name)).absolute()) if name in _PATHS else call.values[name]
            for name in names
            if name in call.given
        }

    groups = {"as-groups": list(call.listed("as-group"))} if "as-group" in call.given else {}
    extras: dict[str, list[str]] = {}
    for extra in call.listed("as-user-extra"):
        key, equals, value = extra.partition("=")
        if equals:  # kubectl ignores a value without one, too
            extras.setdefault(key, []).append(value)
    return Overrides(
        cluster_name=call.text("cluster"),
        user_name=user if isinstance(user := call.values.get("user"), str) else "",
        cluster=given(_OF_CLUSTER),
        user={**given(_OF_USER), **groups, **({"as-user-extra": extras} if extras else {})},
    )


_PATHS = frozenset({"certificate-authority", "client-certificate", "client-key"})


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Environment of a command: output, input, cluster and clock. Tests replace it."""

    out: Callable[[str], object] = sys.stdout.write
    err: Callable[[str], object] = sys.stderr.write
    read_stdin: Callable[[], str] = sys.stdin.read
    connect: Callable[[CommandCall], Awaitable[Reached]] = connect
    environ: Mapping[str, str] = {}
    clock: Clock = read_system_clock
    become: Callable[[str, list[str]], int] = os.execv
    """Function that replaces this process by another program and does not return. Tests run the program and return its
    exit code.
    """
    is_terminal: bool = False
    """Whether `out` is a terminal: output has colours, and lists are redrawn."""
    program: str = "kubectl kruise"


class Session:
    """State of a command. An async context manager: it closes the connections at the end."""

    def __init__(
        self, call: CommandCall, around: Surroundings, *, command: str = "", typed: str = ""
    ) -> None:
        self.call = call
        self.typed = typed
        """The whole command line, for `--record`."""
        self.around = around
        self.command = command
        self.warnings: list[str] = []
        self._reached: Reached | None = None
        self._client: Client | None = None
        self._mapper: Mapper | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    # ── printing ─────────────────────────────────────────────────────────────

    def say(self, text: str) -> None:
        """Print a line on standard output, without control characters."""
        self.around.out(f"{escape_terminal(text)}\n")

    def note(self, text: str) -> None:
        """Print a line on standard error, without control characters."""
        self.around.err(f"{escape_terminal(text)}\n")

    def write(self, text: str) -> None:
        """Print text unchanged: the output of `-o`, which programs read, and lines that have colours. Their writer
        escapes text of the cluster.
        """
        self.around.out(text)

    def warn(self, text: str) -> None:
        """Print a warning, once for each text."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.note(f"Warning: {text}")

    @property
    def now(self) -> float:
        """Current time."""
        return self.around.clock()

    @property
    def has_colours(self) -> bool:
        """Whether the output is a terminal, and neither a flag nor NO_COLOR forbids colours."""
        is_plain = self.call.is_on("no-color") or self.around.environ.get("NO_COLOR")
        return self.around.is_terminal and not is_plain

    @property
    def ends(self) -> float | None:
        """Time at which `--timeout` ends; None if there is no limit."""
        timeout_s = self.call.seconds("timeout")
        return self.now + timeout_s if timeout_s else None

    # ── the cluster ──────────────────────────────────────────────────────────

    async def open_transport(self) -> Transport:
        """Transport to the API server; the first call connects."""
        return (await self._connect()).transport

    async def make_client(self) -> Client:
        """Client for typed requests. It retries rarely, because a user waits for the answer."""
        if self._client is None:
            transport = WarningTransport(await self.open_transport(), self.warn)
            self._client = Client(
                transport, clock=self.around.clock, retry=RetryPolicy(reads=1, writes=1, total_s=5.0)
            )
        return self._client

    async def read_mapper(self) -> Mapper:
        """Mapper from names to the API server's resources."""
        if self._mapper is None:
            self._mapper = Mapper(await read_served(await self.open_transport()), warn=self.warn)
        return self._mapper

    async def read_namespace(self) -> str:
        """Namespace of `-n`, or else of the kubeconfig's context."""
        return self.call.text("namespace") or (await self._connect()).namespace

    @property
    def is_namespace_given(self) -> bool:
        """Whether `-n` was on the command line."""
        return bool(self.call.text("namespace"))

    async def _connect(self) -> Reached:
        if self._reached is None:
            self._reached = await self.around.connect(self.call)
            if self.call.number("v") >= TRACED_FROM:
                from pykruise.cli.insight.traced_requests import Traced

                traced = Traced(self._reached.transport, self.note)
                self._reached = ClusterConnection(traced, self._reached.namespace)
            self._stack.push_async_callback(self._reached.transport.close)
        return self._reached

    def read_field_manager(self, default: str) -> str:
        """Manager in managedFields."""
        return self.call.text("field-manager") or default


def dry_run_of(call: CommandCall, warn: Callable[[str], None]) -> str:
    """Value of `--dry-run`: `none`, `client` or `server`. Raises KubectlError for another value."""
    value = call.text("dry-run") or "none"
    match value:
        case "none" | "client" | "server":
            return value
        case "unchanged":
            warn("--dry-run is deprecated and can be replaced with --dry-run=client.")
            return "client"
        case "true" | "false":
            raise KubectlError(f'Invalid dry-run value ({value}). Must be "none", "server", or "client".')
    raise KubectlError(f'Invalid dry-run value ({value}). Must be "none", "server", or "client".')
