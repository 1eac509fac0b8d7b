"""Real nodes on this machine: kubelet, containerd and runc in their own namespaces, and a registry.

    async with await ControlPlane.start(nodes=True) as plane, await Nodes.start(plane, 3) as nodes:
        node = nodes["node-1"]                 # all nodes are Ready; their pods really run
        node.cri_socket                        # containerd's socket, as a path outside the node
        await node.run("busybox", "ps")        # runs a command until it ends; returns its output
        subprocess.Popen(node.command("/usr/bin/python3", "-m", "agent"))  # a process on the node
        node.log("kubelet"), node.disk / "log/pods"  # files, seen from outside

        nodes.registry.push(build_busybox_image("one"), "web:1", "web:2")  # one digest under two tags
        nodes.registry.set_rule("private/", Rule(credentials="me:secret"))  # "private/web:1" needs a pull secret
        nodes.registry.set_rule("slow/", Rule(bytes_per_second=250_000))  # "slow/web:1" is sent slowly
        nodes.registry.count_pulls("web:1")    # number of pulls

        await node.kill("kubelet")             # SIGKILL; node.restart("kubelet") starts it again
        await node.kill("containerd")          # containers stay
        await node.power_off()                 # the whole node immediately; its disk stays
        await node.boot()

Most tests need not push images. The registry builds an image that was not pushed ("nginx:1") from busybox on demand: it
runs until it gets a signal to end, and then ends immediately (testbed/registry.py). Only names such as "missing:1" and
"team/broken:1" do not exist.

Commands on a node see the machine's files, except that /run, /var/lib and /var/log are the node's own: containerd's
socket is /run/containerd/containerd.sock there, kubelet's folder is /var/lib/kubelet, logs are in /var/log/pods. A
command must have an absolute path, or be in the usual folders. The machine's loopback is not in a node's network: a
process there reaches the API server with ``nodes.kubeconfig("agent", token)``, where the token belongs to a
ServiceAccount, or with ``nodes.kubeconfig("admin", plane.token)``. From outside, use `plane.kubeconfig` as usual. Logs,
exec, and webhooks behind a Service work.

The processes of a set of nodes:

    gateway.py ── a network namespace with a bridge, the way to and from the control plane, the registry
      └ node-1 ── first process of the node's pid, mount, network, uts and ipc namespaces
          ├ containerd ── its shims, runc, pods
          ├ kubelet
          └ kube-proxy   (with ``services=True``)

All end with the process that started them, even if it is killed. A janitor then removes the control groups and the
folder with disks and logs. No object here is bound to an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed import cgroups, gateway
from testbed.build import NODE, MissingError, build
from testbed.control_plane import ControlPlane
from testbed.images import BUSYBOX, build_busybox_image
from testbed.namespaces import enter
from testbed.node_settings import (
    CNI_PROGRAMS,
    CRI_SOCKET,
    KUBELET_HEALTH_PORT,
    PAUSE_IMAGE,
    SEARCH_PATH,
    address_of,
    boot_script,
    list_network_commands,
    pods_of,
    run_files,
)
from testbed.processes import Component, Leash, ProcessError
from testbed.registry import Registry, Rule
from testbed.settings import MOST_NODES, PROXY, format_node_name

__all__ = ["CONTAINERD", "KUBELET", "KUBE_PROXY", "Node", "Nodes", "Registry", "Rule", "check"]

CONTAINERD = "containerd"
PROGRAM_PATH = ":".join((*filter(None, [os.environ.get("CONTAINERD")]), SEARCH_PATH))
"""Search path for programs. $CONTAINERD is a folder with another containerd and shim than the distribution's."""
KUBELET = "kubelet"
KUBE_PROXY = "kube-proxy"
MACHINE = "machine"

PROGRAMS = (CONTAINERD, "containerd-shim-runc-v2", "runc", "ip", "iptables", "unshare", "nsenter")

JANITOR = """\
read nothing
tries=0
while [ $tries -lt 200 ]; do
    left=
    for group in {groups}; do
        if [ -d $group ]; then find $group -depth -type d -exec rmdir {{}} + 2>/dev/null || left=1; fi
    done
    [ -z "$left" ] && break
    tries=$((tries + 1)); sleep 0.05
done
[ -e {directory}/keep ] || rm -rf --one-file-system {directory}
"""
"""Waits until its starter has ended, and then for the last process of each control group."""

_HERE = Path(__file__).resolve().parent


def check() -> None:
    """Check that this machine can run real nodes. Raises MissingError, which names in one line what is missing and
    how to get it.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise MissingError("real nodes need root on Linux (they make namespaces and mounts of their own)")
    if not (_may_make_namespaces() and cgroups.may_make()):
        raise MissingError(
            "real nodes need the right to make namespaces and control groups, which is not given here"
        )
    lacking = [name for name in PROGRAMS if not shutil.which(name, path=PROGRAM_PATH)]
    lacking += [str(path) for path in (CNI_PROGRAMS / "bridge", BUSYBOX) if not path.exists()]
    if lacking:
        packages = " ".join((_HERE / "packages.txt").read_text().split())
        remedy = f"apt-get install --no-install-recommends {packages}"
        raise MissingError(f"real nodes need {', '.join(lacking)}: {remedy}")


def _may_make_namespaces() -> bool:
    return _run(["unshare", "--mount", "--net", "--pid", "--fork", "true"]).returncode == 0


class Nodes:
    """Real nodes of one control plane. Create them with ``await Nodes.start(...)``.

    A node is ``nodes["node-1"]``; numbers start at 1. All nodes pull from `registry`.
    """

    def __init__(self, plane: ControlPlane, directory: Path, binaries: Path, wait_seconds: float) -> None:
        self.plane = plane
        self.directory = directory
        self.binaries = binaries
        self.wait_seconds = wait_seconds
        self.registry = Registry(directory / "registry")
        self.group = f"/{directory.name}"
        self.leash = Leash()
        self._nodes: dict[str, Node] = {}
        self._janitor = self._start_janitor()
        self._gateway = self._component_gateway()

    @classmethod
    async def start(
        cls,
        plane: ControlPlane,
        count: int = 1,
        *,
        services: bool = False,
        kubelet: Mapping[str, Any] | None = None,
        wait_seconds: float = 120,
    ) -> Self:
        """Build the kubelet if it is missing, start nodes, and wait until each is Ready.

        ``plane`` must have been started with ``nodes=True``. ``services`` runs kube-proxy on the nodes, so that pods
        reach
        Services. ``kubelet`` changes fields of each kubelet's configuration. Raises MissingError if this machine
        cannot run nodes, and ProcessError, with the end of a log, for a node that does not become ready.
        """
        check()
        if not plane.settings.nodes:
            raise ProcessError("real nodes join only a control plane that was started with nodes=True")
        if not 1 <= count <= MOST_NODES:
            raise ValueError(f"1 to {MOST_NODES} nodes, not {count}")
        binaries = await asyncio.to_thread(build, plane.kubernetes, part=NODE)
        nodes = cls(plane, Path(tempfile.mkdtemp(prefix="pykruise-nodes-")), binaries, wait_seconds)
        try:
            await nodes._start_all(count, services=services, kubelet=kubelet or {})
        except BaseException as error:
            await nodes.stop(keep=isinstance(error, Exception))
            raise
        return nodes

    def __getitem__(self, name: str) -> Node:
        """Return the node of this name."""
        return self._nodes[name]

    def __iter__(self) -> Iterator[Node]:
        """Iterate over all nodes, by number."""
        return iter(self._nodes.values())

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._nodes)

    def write_kubeconfig(self, user: str, token: str) -> Path:
        """Write a kubeconfig file for a process on a node, or for a process in the nodes' network."""
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        path.touch(mode=0o600)
        settings = self.plane.settings
        path.write_text(settings.format_kubeconfig(user, token, url=settings.nodes_url))
        return path

    @property
    def gateway_pid(self) -> int:
        """A process in the network that joins the nodes. From there every node and pod is reachable."""
        return self._gateway.pid

    async def stop(self, *, keep: bool = False) -> None:
        """Stop everything and remove it. `keep` keeps the folder with logs and disks."""
        if keep:
            (self.directory / "keep").touch()
        self.leash.release()
        for component in (self._gateway, *(each for node in self for each in node.components)):
            await component.end()
        if self._janitor.stdin:
            self._janitor.stdin.close()
        await asyncio.to_thread(self._janitor.wait)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start_all(self, count: int, *, services: bool, kubelet: Mapping[str, Any]) -> None:
        repository = PAUSE_IMAGE.partition("/")[2]
        self.registry.push(build_busybox_image("pause"), repository)
        await self._gateway.start(self.leash)
        for number in range(1, count + 1):
            node = Node(self, number, services=services, kubelet=kubelet)
            self._nodes[node.name] = node
        try:
            async with asyncio.TaskGroup() as group:
                for node in self:
                    group.create_task(node.boot())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _component_gateway(self) -> Component:
        egress = self.plane.settings.egress_socket
        command = [
            sys.executable,
            "-m",
            "testbed.gateway",
            f"--api-port={self.plane.settings.ports.api_server}",
            f"--egress={egress}",
            f"--registry={self.registry.folder}",
        ]
        environment = {"PYTHONPATH": str(_HERE.parent), "PATH": PROGRAM_PATH}

        async def takes_connections() -> bool:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(egress))
                return True
            return False

        log = self.directory / "gateway.log"
        return Component("gateway", command, log, takes_connections, self.wait_seconds, environment)

    def _start_janitor(self) -> subprocess.Popen[bytes]:
        groups = [str(folder) for folder in cgroups.make(self.group)]
        script = JANITOR.format(groups=" ".join(groups), directory=self.directory)
        return subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that signals to this process's group do not reach it
        )


class Node:
    """One real node of ``Nodes``."""

    def __init__(self, nodes: Nodes, number: int, *, services: bool, kubelet: Mapping[str, Any]) -> None:
        self.name = format_node_name(number)
        self.number = number
        self.address = address_of(number)
        self.directory = nodes.directory / self.name
        self._nodes = nodes
        self._kubelet = kubelet
        self.directory.mkdir()
        (self.directory / "boot.sh").write_text(
            boot_script(name=self.name, number=number, directory=self.directory)
        )
        self._machine = self._component_machine()
        programs = {
            CONTAINERD: ([CONTAINERD, "--config", "/run/containerd/config.toml"], self._containerd_answers),
            KUBELET: (self._kubelet_command(), self._is_ready),
        }
        if services:
            proxy = [str(nodes.binaries / KUBE_PROXY), "--config=/run/kube-proxy.yaml", "-v=2"]
            programs[KUBE_PROXY] = ([*proxy, f"--hostname-override={self.name}"], _return_true)
        self._programs = programs
        self._components: dict[str, Component] = {}

    # ── processes on the node ────────────────────────────────────────────────

    @property
    def pid(self) -> int:
        """The node's first process, as seen from outside. It runs while the node is on."""
        return self._machine.pid

    def build_command(self, *command: str) -> list[str]:
        """Return the command line that runs this command on the node. The command must end itself, or the node ends
        it.
        """
        return enter(self.pid, command)

    async def run(self, *command: str) -> str:
        """Run a command on the node until it ends, and return its output. Raises ProcessError if it fails."""
        done = await asyncio.to_thread(_run, self.build_command(*command))
        if done.returncode:
            raise ProcessError(f"{self.name}: {' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    # ── parts of a node ──────────────────────────────────────────────────────

    @property
    def cri_socket(self) -> Path:
        """containerd's socket, as seen from outside. On the node it is /run/containerd/containerd.sock."""
        return self.directory / CRI_SOCKET.removeprefix("/")

    @property
    def disk(self) -> Path:
        """The folder that survives a power-off: containerd/, kubelet/ and log/."""
        return self.directory / "disk"

    def log(self, component: str) -> Path:
        """Return the file with the complete output of "containerd", "kubelet" or "kube-proxy", over all its runs."""
        return self.directory / f"{component}.log"

    def is_alive(self, component: str) -> bool:
        """Whether a component runs."""
        return component in self._components and self._components[component].alive

    @property
    def components(self) -> Sequence[Component]:
        """The node's first process, and all programs that it runs."""
        return [self._machine, *self._components.values()]

    # ── failures ─────────────────────────────────────────────────────────────

    async def kill(self, component: str, signum: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to "containerd", "kubelet" or "kube-proxy", and wait until it has ended."""
        await self._components[component].end(signum)

    async def restart(self, component: str) -> None:
        """Start a component, after killing it if it runs, and wait until it is ready."""
        await self.kill(component)
        await self._components[component].start(self._nodes.leash)

    async def power_off(self) -> None:
        """End everything on the node immediately, like a power failure. Its disk stays."""
        for component in self.components:
            await component.end()

    async def boot(self) -> None:
        """Boot the node, which must be off, and wait until it is Ready."""
        if self._machine.alive:
            raise ProcessError(f"{self.name} is on already")
        self._booted.unlink(missing_ok=True)
        cgroups.make(self._group)
        await self._machine.start(self._nodes.leash)
        await asyncio.to_thread(self._connect)
        self._write_run_files()
        self._components = {name: self._component(name) for name in self._programs}
        for component in self._components.values():
            await component.start(self._nodes.leash)

    # ── start of a node ──────────────────────────────────────────────────────

    @property
    def _group(self) -> str:
        return f"{self._nodes.group}/{self.name}"

    @property
    def _booted(self) -> Path:
        return self.directory / "run/booted"

    def _component_machine(self) -> Component:
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["unshare", *spaces, "/bin/sh", str(self.directory / "boot.sh")]

        async def is_booted() -> bool:
            return self._booted.exists()

        return Component(
            f"{self.name}'s first process",
            command,
            self.log(MACHINE),
            is_booted,
            self._nodes.wait_seconds,
            {"PATH": PROGRAM_PATH},
            nested=True,
        )

    def _component(self, name: str) -> Component:
        command, healthy = self._programs[name]
        return Component(
            f"{self.name}'s {name}",
            self.build_command(*command),
            self.log(name),
            healthy,
            self._nodes.wait_seconds,
            {"PATH": PROGRAM_PATH},
            nested=True,
        )

    def _connect(self) -> None:
        """Connect the node to the bridge, and add routes to pods on both sides."""
        gateway_pid = self._nodes.gateway_pid
        link = f"veth{self.number}"
        there = (
            f"link add {link} type veth peer name eth0 netns {self.pid}",
            f"link set {link} master {gateway.BRIDGE} up",
            f"route replace {pods_of(self.number)} via {self.address}",
        )
        for words in there:
            _run_checked(enter(gateway_pid, ["ip", *words.split()], namespaces=["--net"]))
        for words in list_network_commands(self.number):
            _run_checked(self.build_command("ip", *words.split()))

    def _write_run_files(self) -> None:
        plane = self._nodes.plane.settings
        kubelet = {"featureGates": dict(plane.feature_gates), **self._kubelet}
        files = run_files(self.number, kubelet, cgroup=self._group)
        files["kubelet.kubeconfig"] = plane.find_kubeconfig(self.name).read_text()
        files["kube-proxy.kubeconfig"] = plane.find_kubeconfig(PROXY).read_text()
        for name, content in files.items():
            path = self.directory / "run" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def _kubelet_command(self) -> list[str]:
        return [
            str(self._nodes.binaries / KUBELET),
            "--config=/run/kubelet.yaml",
            "--kubeconfig=/run/kubelet.kubeconfig",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            "-v=2",
        ]

    async def _containerd_answers(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self.cri_socket))
            return True
        return False

    async def _is_ready(self) -> bool:
        """Whether the kubelet is healthy, and the API server shows the node as Ready."""
        plane = self._nodes.plane
        return await asyncio.to_thread(
            lambda: (
                _kubelet_is_well(plane.settings.egress_socket, self.address) and _is_ready(plane, self.name)
            )
        )


async def _return_true() -> bool:
    return True


def _kubelet_is_well(egress: Path, address: str) -> bool:
    """Whether the kubelet's /healthz returns 200, over the same path that the API server uses."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as way:
        way.settimeout(5)
        way.connect(str(egress))
        way.sendall(f"CONNECT {address}:{KUBELET_HEALTH_PORT} HTTP/1.1\r\n\r\n".encode())
        if b"200" not in way.recv(1000):
            return False
        way.sendall(b"GET /healthz HTTP/1.0\r\nHost: kubelet\r\n\r\n")
        return b" 200 " in way.recv(1000)
    return False


def _is_ready(plane: ControlPlane, name: str) -> bool:
    request = urllib.request.Request(
        f"{plane.url}/api/v1/nodes/{name}", headers={"Authorization": f"Bearer {plane.token}"}
    )
    tls = ssl.create_default_context(cadata=plane.ca_data.decode())
    with contextlib.suppress(OSError), urllib.request.urlopen(request, context=tls, timeout=5) as answer:
        conditions = json.load(answer)["status"].get("conditions", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return False


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": PROGRAM_PATH}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _run_checked(command: list[str]) -> None:
    done = _run(command)
    if done.returncode:
        raise ProcessError(f"{' '.join(command)} failed: {done.stderr.strip()}")
