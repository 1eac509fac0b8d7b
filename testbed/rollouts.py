"""OpenKruise Rollouts on a control plane of the testbed: it steers rollouts of the workloads from outside.

    rollouts = Rollouts(plane, "0.6")
    await rollouts.install()  # its CRDs, webhook configurations and namespace, as in its release
    await rollouts.start()    # returns when it is ready
    await rollouts.stop()

How it runs: testbed/go_manager.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.build import ROLLOUTS
from testbed.go_manager import GoManager

__all__ = ["Rollouts"]

_PREFIX = "kruise-rollout-"
_MANAGED = {"matchExpressions": [{"key": "rollouts.kruise.io/workload-type", "operator": "Exists"}]}
_CONVERTED = ("rollouts.rollouts.kruise.io", "batchreleases.rollouts.kruise.io")


class Rollouts(GoManager):
    """One release's manager, running or not."""

    part = ROLLOUTS
    namespace = "kruise-rollout"
    reads_files = True  # the scripts for ingress controllers, in lua_configuration

    def build_manifests(self) -> list[dict[str, Any]]:
        """Return what kustomize builds from the release's folder `config`."""
        definitions = self.definitions()
        for definition in definitions:
            if definition["metadata"]["name"] in _CONVERTED:
                definition["spec"]["conversion"] = self._conversion()
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"{_PREFIX}webhook-certs", "namespace": self.namespace},
            },
            *definitions,
            *self._configurations(),
        ]

    def build_arguments(self) -> Sequence[str]:
        """Arguments of the program."""
        return (
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--metrics-bind-address=127.0.0.1:{self._metrics_port}",
            f"--health-probe-bind-address=127.0.0.1:{self._health_port}",
            "--feature-gates=AdvancedDeployment=true",
            "-v=3",
        )

    def _conversion(self) -> Mapping[str, Any]:
        service = {"name": f"{_PREFIX}webhook-service", "namespace": self.namespace, "path": "/convert"}
        webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1beta1"]}
        return {"strategy": "Webhook", "webhook": webhook}

    def _configurations(self) -> list[dict[str, Any]]:
        configurations = self.webhook_configurations()
        for document in configurations:
            document["metadata"] = {"name": f"{_PREFIX}{document['metadata']['name']}"}
            for webhook in document["webhooks"]:
                service = webhook["clientConfig"]["service"]
                service |= {"name": f"{_PREFIX}{service['name']}", "namespace": self.namespace}
                if document["kind"] == "MutatingWebhookConfiguration":
                    webhook["objectSelector"] = _MANAGED
        return configurations
