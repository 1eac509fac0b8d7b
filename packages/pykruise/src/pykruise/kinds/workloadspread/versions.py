"""Versions of pods. Slots are counted per version of the workload's template, so that a rollout fills the first
subsets again although older pods still occupy them.

labels + owner's kind ──▶ version_of() ──▶ key of status.versionedSubsetStatuses

Pure.
"""

from collections.abc import Collection, Mapping
from typing import Final

from pykruise.pods.view.keys import REVISION_LABEL, TEMPLATE_HASH_LABEL
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.view.pod_view import PodView

UNVERSIONED: Final = "versionIgnored"
"""Version of pods whose owner's kind is not counted by version, and of pods without a label for the version."""

DEFAULT_VERSIONED: Final = frozenset({"deployment", "replicaset"})


def parse_versioned_kinds(names: Collection[str]) -> frozenset[str]:
    """Convert the kinds of the flag --ws-enabled-versioned-status to lower case. For Deployments, add ReplicaSets,
    which own the pods.
    """
    kinds = frozenset(name.strip().lower() for name in names if name.strip())
    return kinds | {"replicaset"} if "deployment" in kinds else kinds


def version_of(labels: Mapping[str, str], *, owner_kind: str, versioned: Collection[str]) -> str:
    """Return the version of a pod, from its labels and the kind of its controller."""
    if owner_kind.lower() not in versioned:
        return UNVERSIONED
    return labels.get(TEMPLATE_HASH_LABEL) or shorten_hash(labels.get(REVISION_LABEL, "")) or UNVERSIONED


def version_of_pod(pod: PodView, versioned: Collection[str]) -> str:
    """Return the version of an existing pod."""
    kind = pod.controller.kind if pod.controller is not None else ""
    return version_of(pod.labels, owner_kind=kind, versioned=versioned)
