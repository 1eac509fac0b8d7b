"""The CRD of OpenKruise Rollouts' Rollout, with the fields that the dashboard reads."""

from typing import Any, Final

from pykruise.dashboard.objects import ROLLOUTS

__all__ = ["ROLLOUTS_CRD"]

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCHEMA: Final = {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
_VERSION: Final = {
    "name": "v1beta1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": _SCHEMA},
    "subresources": {"status": {}},
}
_NAMES: Final = {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"}

ROLLOUTS_CRD: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rollouts.rollouts.kruise.io"},
    "spec": {"group": ROLLOUTS.group, "scope": "Namespaced", "names": _NAMES, "versions": [_VERSION]},
}
