"""`pykruise up`: a cluster in this process, with the manager in it, until Ctrl-C.

playground ──▶ HttpFront (TLS, 127.0.0.1, random token) ──▶ kubeconfig file ──▶ kubectl
"""

import asyncio
import secrets
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from pykruise.cli.errors import CommandError
from pykruise.cli.playground import playground
from pykruise.kube.clock import system_clock
from pykruise.sandbox.certificates import Certificate, issue, kubeconfig_document, write_kubeconfig
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.http_front import HttpFront

CONTEXT = "pykruise"


async def run_up(*, nodes: int, port: int, kubeconfig: Path | None) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises CommandError for a path that cannot be written, OSError for a port that cannot be used.
    """
    stop = _stop_on_signals()
    certificate = issue(now=system_clock())
    token = secrets.token_urlsafe(32)
    with _kubeconfig_path(kubeconfig) as path:
        async with playground(ClusterSettings(nodes=nodes)) as place:
            front = HttpFront(place.cluster.server, token=token, port=port, certificate=certificate)
            await front.start()
            try:
                _write(path, front.url, certificate, token)
                _greet(path, url=front.url, nodes=nodes)
                await place.cluster_failed_or(stop)
            finally:
                await front.stop()
    Console(stderr=True).print("stopped; everything in it is gone")


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


@contextmanager
def _kubeconfig_path(wanted: Path | None) -> Iterator[Path]:
    """The path asked for, which is left behind, or one in a temporary folder, which is not."""
    if wanted is not None:
        yield wanted
        return
    with tempfile.TemporaryDirectory(prefix="pykruise-") as folder:
        yield Path(folder) / "kubeconfig"


def _write(path: Path, url: str, certificate: Certificate, token: str) -> None:
    try:
        write_kubeconfig(path, kubeconfig_document(url, certificate.authority, token, CONTEXT))
    except OSError as error:
        raise CommandError(f"{path}: the kubeconfig cannot be written: {error.strerror or error}") from error


def _greet(path: Path, *, url: str, nodes: int) -> None:
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"A cluster of {nodes} simulated nodes runs at {url}, with the manager in it.")
    console.print("Pods run on paper: it is for development and tests. Next, in another terminal:\n")
    console.print(f"  export KUBECONFIG={path}")
    console.print("  kubectl apply -f examples/cloneset.yaml")
    console.print("  kubectl get clonesets,pods")
    console.print("  kubectl scale clonesets/web --replicas 8\n")
    console.print("Ctrl-C ends it, with everything in it.")
