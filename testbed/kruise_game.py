"""kruise-game on a control plane of the testbed: game servers on Advanced StatefulSets and PodProbeMarkers.

    game = KruiseGame(plane, "1.0")
    await game.install()  # its CRDs and webhook configurations, as in its release
    await game.start()    # returns when it is ready
    await game.stop()

How it runs: testbed/go_manager.py. In its release, cert-manager creates the certificate of its webhooks; here, the
certificate is created for the loopback.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from testbed.build import GAME
from testbed.control_plane import ControlPlane
from testbed.go_manager import GoManager
from testbed.pki import Authority
from testbed.processes import free_ports

__all__ = ["KruiseGame"]

_PREFIX = "kruise-game-"


class KruiseGame(GoManager):
    """One release's manager, running or not."""

    part = GAME
    namespace = "kruise-game-system"
    reads_files = True  # the settings of networks, in config/manager

    def __init__(self, plane: ControlPlane, version: str) -> None:
        super().__init__(plane, version)
        [self._scaler_port] = free_ports(1)
        self._authority = Authority("kruise-game")
        certificate, key = self._authority.issue_serving_pair(["127.0.0.1"], ["localhost"])
        self._certificates = self._folder / "certificates"
        self._certificates.mkdir()
        (self._certificates / "tls.crt").write_bytes(certificate)
        (self._certificates / "tls.key").write_bytes(key)

    def build_manifests(self) -> list[dict[str, Any]]:
        """Return what kustomize builds from the release's folder `config`, with webhooks by address."""
        definitions = self.definitions()
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            *definitions,
            *self._configurations(),
        ]

    def build_arguments(self) -> Sequence[str]:
        """Arguments of the program."""
        return (
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--metrics-bind-address=127.0.0.1:{self._metrics_port}",
            f"--health-probe-bind-address=127.0.0.1:{self._health_port}",
            f"--scale-server-bind-address=127.0.0.1:{self._scaler_port}",
            "--provider-config=config/manager/config.toml",
            "--api-server-qps=100",
            "--api-server-qps-burst=200",
            "--enable-cert-generation=false",
            f"--webhook-port={self.webhook_port}",
            f"--webhook-server-certs-dir={self._certificates}",
        )

    def _configurations(self) -> list[dict[str, Any]]:
        configurations = self.webhook_configurations()
        bundle = base64.b64encode(self._authority.certificate).decode()
        for document in configurations:
            document["metadata"] = {"name": f"{_PREFIX}{document['metadata']['name']}"}
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                address = f"https://127.0.0.1:{self.webhook_port}{path}"
                webhook["clientConfig"] = {"url": address, "caBundle": bundle}
        return configurations
