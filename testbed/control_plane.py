"""A real Kubernetes control plane on this machine's loopback: etcd, API server, controllers and scheduler.

    async with await ControlPlane.start() as plane:
        ...  # plane.kubeconfig, or plane.url with plane.token and plane.ca_data

There are no kubelets: the caller simulates nodes and the lifecycle of pods, unless real nodes (node.py) join a
control plane that was started with ``nodes=True``. Every start has its own ports, certificates, admin token and
temporary folder. ``python -m testbed.control_plane`` runs a control plane in the foreground.

The components end with this process, even if it is killed. No object here is bound to an event loop, so one loop may
start a control plane and another loop may use or stop it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.build import VERSIONS, BuildError, build, default_version
from testbed.etcd_gateway import compact
from testbed.processes import Component, Health, Leash, ProcessError, free_ports, is_answering_ok
from testbed.settings import (
    ADMIN,
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    FEATURE_GATES,
    MANAGER,
    SCHEDULER,
    Ports,
    Settings,
)

__all__ = [
    "API_SERVER",
    "CONTROLLER_MANAGER",
    "ETCD",
    "SCHEDULER",
    "BuildError",
    "ControlPlane",
    "ProcessError",
]

# Seconds for which the API servers of a minor still list old revisions from memory after etcd has compacted them. It
# is a fixed interval of the API server plus one second.
REMEMBERED_SECONDS = {"1.32": 0.0, "1.37": 16.0}


class ControlPlane:
    """A running control plane. Create it with ``await ControlPlane.start()``.

    A component has the name of its program: "etcd", "kube-apiserver", "kube-controller-manager" or "kube-scheduler".
    """

    def __init__(
        self, kubernetes: str, settings: Settings, components: Sequence[str], wait_seconds: float
    ) -> None:
        self.kubernetes = kubernetes
        self.directory = settings.directory
        self.url = settings.url
        self.token = settings.tokens[ADMIN]
        self.ca_data = settings.authority.certificate
        self.settings = settings
        self._leash: Leash | None = None
        health = self._health_checks()
        self._components = {
            name: Component(
                name,
                settings.build_command(name),
                settings.find_file(f"{name}.log"),
                health[name],
                wait_seconds,
                settings.environment,
            )
            for name in components
        }

    @classmethod
    async def start(
        cls,
        kubernetes: str | None = None,
        *,
        controller_manager: bool = True,
        scheduler: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        extra_args: Mapping[str, Sequence[str]] | None = None,
        audit: bool = False,
        heap_growth: int = 100,
        nodes: bool = False,
        wait_seconds: float = 240,
    ) -> Self:
        """Build missing programs, start the components, and wait until each is healthy.

        ``kubernetes`` is a minor such as "1.37"; the default is $KUBERNETES. ``feature_gates`` apply to every
        Kubernetes component, ``extra_args`` to the component under which they are listed. ``audit`` writes each
        request to ``audit_log``. ``heap_growth`` is the percentage by which a component's memory may grow before
        garbage is collected ($GOGC): a larger value uses more memory and less CPU time. ``nodes`` prepares for the
        real nodes of node.py, with service accounts for pods and controllers for nodes. A component that is not
        healthy after ``wait_seconds`` raises a ProcessError with the reason, and the temporary folder stays.
        """
        minor = kubernetes or default_version()
        binaries = await asyncio.to_thread(build, minor)
        settings = Settings(
            directory=Path(tempfile.mkdtemp(prefix="pykruise-testbed-")),
            binaries=binaries,
            ports=Ports(*free_ports(5)),
            feature_gates={**FEATURE_GATES.get(minor, {}), **(feature_gates or {})},
            extra_args=extra_args or {},
            audit=audit,
            heap_growth=heap_growth,
            kubernetes=minor,
            nodes=nodes,
        )
        optional = {CONTROLLER_MANAGER: controller_manager, SCHEDULER: scheduler}
        components = [ETCD, API_SERVER, *(name for name, wanted in optional.items() if wanted)]
        plane = cls(minor, settings, components, wait_seconds)
        try:
            await plane._start_all()
        except BaseException as error:
            await plane.stop(keep=isinstance(error, Exception))
            raise
        return plane

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file for the admin, who is in system:masters."""
        return self.settings.find_kubeconfig(ADMIN)

    @property
    def manager_kubeconfig(self) -> Path:
        """A kubeconfig file for the ServiceAccount kruise-system/kruise-manager, which has only the permissions of its
        roles.

        With it the audit log separates the manager's requests from others, and its token can be revoked alone.
        """
        return self.settings.find_kubeconfig(MANAGER)

    async def accept_tokens(self, *, of_manager: bool) -> None:
        """Restart the API server so that it accepts the manager's token, or rejects it (all its requests: 401)."""
        self.settings.write_tokens(without=() if of_manager else (MANAGER,))
        await self.restart(API_SERVER)

    @property
    def audit_log(self) -> Path:
        """One JSON event per request, at the Metadata level. It exists only with ``audit=True``."""
        return self.settings.find_file("audit.log")

    @property
    def components(self) -> tuple[str, ...]:
        """The names of this control plane's components, running or not."""
        return tuple(self._components)

    def find_binary(self, name: str) -> Path:
        """Return the path of a built program, such as "kubectl"."""
        path = self.settings.binaries / name
        if not path.exists():
            raise ValueError(f"no program {name} in {self.settings.binaries}")
        return path

    def log(self, component: str) -> Path:
        """Return the file with the complete output of a component, over all its runs."""
        return self._component(component).log

    def is_alive(self, component: str) -> bool:
        """Whether a component's process runs."""
        return self._component(component).alive

    def read_pid(self, component: str) -> int:
        """Return the process id of a component, which must run."""
        return self._component(component).pid

    def read_cpu_seconds(self, component: str) -> float:
        """Return the user and system time of a component since its last start."""
        stat = Path(f"/proc/{self.read_pid(component)}/stat").read_text()
        fields = stat.rpartition(")")[
            2
        ].split()  # the name in parentheses may contain blanks, so start at field 3
        user, system = fields[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def read_rss_bytes(self, component: str) -> int:
        """Return the memory that a component uses now."""
        pages = Path(f"/proc/{self.read_pid(component)}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    async def kill(self, component: str, signum: signal.Signals = signal.SIGKILL) -> None:
        """Send a component a signal, and wait until it has ended."""
        await self._component(component).end(signum)

    async def restart(self, component: str) -> None:
        """Start a component with its old port and data, after killing it if it runs, and wait until it is healthy."""
        if self._leash is None:
            raise ProcessError("the control plane is stopped")
        await self.kill(component)
        await self._component(component).start(self._leash)

    async def compact(self) -> None:
        """Compact the history in etcd and in the API server up to now, as happens to revisions that are some minutes
        old.

        Returns when the API server no longer serves old versions from memory either, which takes 16 s in 1.37.
        """
        await asyncio.to_thread(compact, self.settings.ports.etcd)
        await asyncio.sleep(REMEMBERED_SECONDS.get(self.kubernetes, 16.0))

    async def stop(self, *, keep: bool = False) -> None:
        """Stop all components and remove the temporary folder, unless `keep` is set."""
        for component in reversed(self._components.values()):
            await component.end()
        if self._leash:
            self._leash.release()
            self._leash = None
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start_all(self) -> None:
        self.settings.write_files()
        self._leash = Leash()
        await self.restart(ETCD)
        await self.restart(API_SERVER)
        try:
            async with asyncio.TaskGroup() as group:
                for name in self.components[2:]:
                    group.create_task(self.restart(name))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _component(self, name: str) -> Component:
        if name not in self._components:
            raise ValueError(f"no component {name}; there are {', '.join(self._components)}")
        return self._components[name]

    def _health_checks(self) -> dict[str, Health]:
        ports = self.settings.ports
        tls = ssl.create_default_context(cadata=self.ca_data.decode())

        async def api_server() -> bool:
            for path in ("/readyz", "/api/v1/namespaces/default"):
                if not await is_answering_ok(ports.api_server, path, tls=tls, token=self.token):
                    return False
            return True

        return {
            ETCD: lambda: is_answering_ok(ports.etcd, "/health"),
            API_SERVER: api_server,
            CONTROLLER_MANAGER: lambda: is_answering_ok(ports.controller_manager, "/healthz", tls=tls),
            SCHEDULER: lambda: is_answering_ok(ports.scheduler, "/healthz", tls=tls),
        }


async def _run(options: argparse.Namespace) -> int:
    """Run a control plane until a signal arrives or a component ends."""
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    plane = await ControlPlane.start(
        options.kubernetes,
        controller_manager=options.controller_manager,
        scheduler=options.scheduler,
        audit=options.audit,
    )
    print(plane.kubeconfig, flush=True)
    _say(f"Kubernetes {plane.kubernetes} at {plane.url}; end it with Ctrl-C")
    _say(f"try: {plane.find_binary('kubectl')} --kubeconfig {plane.kubeconfig} get namespaces")
    ended: list[str] = []
    while not stop.is_set() and not ended:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), timeout=1)
        ended = [name for name in plane.components if not plane.is_alive(name)]
    await plane.stop(keep=bool(ended))
    for name in ended:
        _say(f"{name} ended by itself (log: {plane.log(name)})")
    return 1 if ended else 0


def _say(text: str) -> None:
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run a control plane in the foreground."""
    parser = argparse.ArgumentParser(
        description="Run a Kubernetes control plane and print its kubeconfig's path."
    )
    parser.add_argument("--kubernetes", metavar="MINOR", help=f"one of {', '.join(VERSIONS)}")
    parser.add_argument("--no-controller-manager", dest="controller_manager", action="store_false")
    parser.add_argument("--no-scheduler", dest="scheduler", action="store_false")
    parser.add_argument("--audit", action="store_true", help="write each request to audit.log")
    try:
        return asyncio.run(_run(parser.parse_args()))
    except (BuildError, ProcessError, OSError) as error:
        _say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
