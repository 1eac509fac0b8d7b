"""OpenKruise's own manager on a control plane of the testbed. Tests compare pykruise with it, and switch over from it.

    manager = OpenKruise(plane, "1.8")
    await manager.install()  # its definitions, webhook configurations, namespace and secret
    await manager.start()    # returns when it is ready
    await manager.stop()

How it runs: testbed/go_manager.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.build import OPENKRUISE
from testbed.control_plane import ControlPlane
from testbed.go_manager import GoManager

__all__ = ["GATES", "NAMESPACE", "OpenKruise"]

NAMESPACE = "kruise-system"
_PREFIX = "kruise-"
"""Prefix that its manifests add to the names of its objects."""

GATES = "ImagePullJobGate=true"
"""Gates that the chart of every release switches on."""


class OpenKruise(GoManager):
    """One release's manager, running or not."""

    part = OPENKRUISE
    namespace = NAMESPACE

    def __init__(
        self,
        plane: ControlPlane,
        version: str,
        *,
        gates: str = GATES,
        kubeconfig: Path | None = None,
        throttled: bool = False,
    ) -> None:
        """`kubeconfig`: its permissions, the admin's by default. `throttled`: keep its default client-side limits."""
        super().__init__(plane, version)
        self.gates = gates
        self._kubeconfig = kubeconfig or plane.kubeconfig
        self._limits = () if throttled else ("--rest-config-qps=500", "--rest-config-burst=1000")

    def build_manifests(self) -> list[dict[str, Any]]:
        """Return its definitions, webhook configurations, namespace and secret, as in its release."""
        manifests = [
            *self.definitions(),
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "labels": {"control-plane": "openkruise"}},
            },
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-daemon-config"}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"{_PREFIX}webhook-certs", "namespace": NAMESPACE},
            },
        ]
        manifests.append(self._deployment())
        for document in self.webhook_configurations():
            document["metadata"]["name"] = f"{_PREFIX}{document['metadata']['name']}"
            for webhook in document["webhooks"]:
                service = webhook["clientConfig"]["service"]
                service |= {"name": f"{_PREFIX}{service['name']}", "namespace": NAMESPACE}
                if webhook["name"] == "mpod.kb.io":
                    webhook["namespaceSelector"] = {
                        "matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]
                    }
                if "builtin" in webhook["name"] or "namespace" in webhook["name"]:
                    webhook["objectSelector"] = {
                        "matchExpressions": [
                            {"key": "policy.kruise.io/delete-protection", "operator": "Exists"}
                        ]
                    }
            manifests.append(document)
        return manifests

    def _deployment(self) -> dict[str, Any]:
        """Build the Deployment that shows the release and its gates. The manager itself is a process here."""
        container = {
            "name": "manager",
            "image": f"openkruise/kruise-manager:v{self.version}.0",
            "args": ["--enable-leader-election", f"--feature-gates={self.gates}"],
        }
        labels = {"control-plane": "controller-manager"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{_PREFIX}controller-manager", "namespace": NAMESPACE},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }

    def build_arguments(self) -> Sequence[str]:
        """Arguments of the program."""
        return (
            f"--kubeconfig={self._kubeconfig}",
            "--enable-leader-election",
            f"--leader-election-namespace={NAMESPACE}",
            f"--metrics-addr=127.0.0.1:{self._metrics_port}",
            f"--health-probe-addr=127.0.0.1:{self._health_port}",
            f"--pprof-addr=127.0.0.1:{self._pprof_port}",
            f"--feature-gates={self.gates}",
            *self._limits,
            "-v=3",
        )
