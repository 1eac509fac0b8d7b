"""kubectl with a cluster whose parts run in their own processes.

running_up():  `pykruise up`, all in one                                        ──▶ Up: kubectl, greeting
running_real(): a real control plane, `pykruise kubelets` and `pykruise manager` ──▶ Kubectl
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.control_plane import ControlPlane

ALONE = (
    "--enable-leader-election=false",
    "--enable-webhooks=false",
    "--metrics-addr=0",
    "--health-probe-addr=0",
    "--pprof-addr=0",
)
"""Flags of a single manager without health probes and webhooks."""

PYKRUISE = (sys.executable, "-m", "pykruise.cli")


READY_S = 120.0
"""Seconds until a command must be ready."""

LAST_LINES = 20
"""Number of lines of a command that a failed test shows."""


def pykruise(*arguments: str, timeout_s: float = 60.0) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [*PYKRUISE, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )


def pauses() -> Iterator[float]:
    """Seconds to wait before each retry of a program: each kubectl costs 60 ms of CPU."""
    pause_s = 0.1
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, 1.0)


class Kubectl:
    """kubectl with the kubeconfig of one cluster. `program`: its path."""

    def __init__(self, kubeconfig: Path, *, program: str | None = None) -> None:
        self.kubeconfig = kubeconfig
        self._program = program or shutil.which("kubectl") or ""
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

    def kubectl(
        self, *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl against it; `env`: further variables of its environment."""
        assert self._program, "kubectl is not installed"
        return subprocess.run(
            [self._program, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            input=stdin,
            env={**self._environment, **(env or {})},
        )

    def start(self, *arguments: str) -> Callable[[], str]:
        """Start kubectl in the background; call the result for its output and errors once it has ended."""
        process = subprocess.Popen(
            [self._program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )
        return lambda: process.communicate(timeout=60)[0]

    def says(self, *arguments: str, stdin: str | None = None) -> str:
        """The output of kubectl, which must succeed."""
        done = self.kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refuses(self, *arguments: str, stdin: str | None = None) -> str:
        """The error output of kubectl, which must fail."""
        done = self.kubectl(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return done.stderr

    @contextmanager
    def forwarding(self, namespace: str, to: str, port: int) -> Iterator[int]:
        """`kubectl port-forward` to a port of a pod or Service, within the block; yields the port on this machine."""
        command = [self._program, "-n", namespace, "port-forward", to, f":{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self._environment) as process:
            assert process.stdout is not None
            try:
                match = re.match(r"Forwarding from 127\.0\.0\.1:(\d+)", process.stdout.readline())
                assert match, f"{' '.join(command)} ended"
                yield int(match[1])
            finally:
                process.terminate()

    def until(self, *arguments: str, shows: str, within_s: float = 30.0) -> str:
        """Repeat a kubectl command until its output has `shows` in it."""
        end = time.monotonic() + within_s
        waits = pauses()
        while True:
            output = self.kubectl(*arguments).stdout
            if shows in output:
                return output
            assert time.monotonic() < end, f"kubectl {' '.join(arguments)} never showed {shows!r}:\n{output}"
            time.sleep(next(waits))


class Up(Kubectl):
    """A ready `pykruise up`."""

    def __init__(self, process: "subprocess.Popen[str]", kubeconfig: Path, greeting: str) -> None:
        super().__init__(kubeconfig)
        self.process = process
        self.greeting = greeting


@contextmanager
def running_up(folder: Path, *arguments: str) -> Iterator[Up]:
    """Start `pykruise up`, wait for its greeting, and end it with Ctrl-C."""
    kubeconfig = folder / "kubeconfig"
    process = subprocess.Popen(
        [*PYKRUISE, "up", "--kubeconfig", str(kubeconfig), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        greeting = ""
        for line in process.stdout:
            greeting += line
            if "Ctrl-C" in line:
                break
        assert process.poll() is None, f"pykruise up ended: {process.communicate()}"
        yield Up(process, kubeconfig, greeting)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _describe_state(process: "subprocess.Popen[str]", arguments: Sequence[str], said: Sequence[str]) -> str:
    """Whether a command still ran when a test failed, and what it said last."""
    code = process.poll()
    state = "still ran" if code is None else f"had ended with exit code {code}"
    return f"pykruise {arguments[0]} {state}; its last lines were:\n{''.join(said[-LAST_LINES:])}"


@contextmanager
def running_real(plane: ControlPlane, *, nodes: int) -> Iterator[Kubectl]:
    """Nodes and the manager for a control plane that has the CRDs, each ended by SIGTERM.

    Nodes of earlier tests without a kubelet are deleted, because pods could be bound to them.
    """
    kubectl = Kubectl(plane.kubeconfig, program=str(plane.find_binary("kubectl")))
    own = {f"node/node-{number}" for number in range(1, nodes + 1)}
    if surplus := set(kubectl.says("get", "nodes", "--output", "name").split()) - own:
        kubectl.says("delete", *sorted(surplus))
    delays = ("--start", "0.1", "--stop", "0.1")
    kubelets = ("kubelets", "--kubeconfig", str(plane.kubeconfig), "--nodes", str(nodes), *delays)
    manager = ("manager", "--kubeconfig", str(plane.manager_kubeconfig), *ALONE)
    with running(*kubelets, says="registered"), running(*manager, says="controller starts"):
        yield kubectl


@contextmanager
def running(
    *arguments: str, says: str, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run a command until SIGTERM, after which it must succeed; it is ready when its error output contains this text.

    `env`: further environment variables.
    """
    process = subprocess.Popen(
        [*PYKRUISE, *arguments], stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    assert process.stderr is not None
    said: list[str] = []
    is_ready = threading.Event()

    def listen() -> None:  # reads to the end: a full pipe would block the command
        for line in process.stderr or ():
            said.append(line)
            if says in line:
                is_ready.set()
        is_ready.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        in_time = is_ready.wait(READY_S)
        assert in_time, f"pykruise {' '.join(arguments)} never said {says!r}: {''.join(said)}"
        assert process.poll() is None, f"pykruise {' '.join(arguments)} ended: {''.join(said)}"
        try:
            yield process
        except Exception as error:
            error.add_note(_describe_state(process, arguments, said))
            raise
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        listener.join()
        process.stderr.close()
    assert process.returncode == 0, f"pykruise {' '.join(arguments)} ended badly: {''.join(said)}"
