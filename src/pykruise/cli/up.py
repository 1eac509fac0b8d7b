"""`pykruise up`: a cluster in this process, with the manager in it, until Ctrl-C.

playground ──▶ HttpFront (TLS, 127.0.0.1, random token) ──▶ kubeconfig file ──▶ kubectl
"""

import asyncio
import secrets
import signal
import tempfile
from pathlib import Path

from rich.console import Console

from pykruise.cli.errors import CommandError
from pykruise.cli.playground import playground
from pykruise.sandbox.certificates import make_certificate
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from pykruise.sandbox.kubeconfig import write_kubeconfig


async def run_up(*, nodes: int, port: int, kubeconfig: Path | None) -> None:
    """Serve until SIGINT or SIGTERM. Raises CommandError for a port or a path that cannot be used."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    path = kubeconfig or Path(tempfile.mkdtemp(prefix="pykruise-")) / "kubeconfig"
    certificate = make_certificate()
    token = secrets.token_urlsafe(32)
    async with playground(ClusterSettings(nodes=nodes)) as place:
        front = HttpFront(place.cluster.server, token=token, port=port, certificate=certificate)
        try:
            await front.start()
        except OSError as error:
            raise CommandError(
                f"port {port} on 127.0.0.1 cannot be used: {error.strerror or error}; "
                "choose another, or 0 for a free one"
            ) from error
        try:
            _write(path, front.url, certificate.ca_pem, token)
            _greet(path, url=front.url, nodes=nodes)
            await stop.wait()
        finally:
            await front.stop()
            if kubeconfig is None:
                path.unlink(missing_ok=True)
                path.parent.rmdir()
    Console(stderr=True).print("stopped; everything in it is gone")


def _write(path: Path, url: str, ca_pem: bytes, token: str) -> None:
    try:
        write_kubeconfig(path, url=url, ca_pem=ca_pem, token=token, context="pykruise")
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
