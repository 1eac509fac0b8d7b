"""An operator as a separate program: it connects to a cluster and runs until a signal ends it.

kubeconfig, or the pod's service account ──▶ HttpTransport ──▶ Operator
"""

from collections.abc import Sequence
from pathlib import Path

from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.program.process import stop_on_signals
from pykruise.runtime.operator import Operator, Work

__all__ = ["serve"]


async def serve(work: Sequence[Work], *, kubeconfig: str | Path | None = None, namespace: str = "") -> None:
    """Run an operator for the cluster of a kubeconfig (None: kubeconfig.py selects it) until SIGTERM or SIGINT.
    `namespace`: only objects of this namespace; empty: of all. Raises ConfigurationError.

    For several replicas, health checks and metrics, build an Operator with an elector, and see kube/program.
    """
    transport = HttpTransport(await load(kubeconfig))
    try:
        operator = Operator(Client(transport), work, namespace=namespace)
        stop_on_signals(operator.stop)
        await operator.run()
    finally:
        await transport.close()
