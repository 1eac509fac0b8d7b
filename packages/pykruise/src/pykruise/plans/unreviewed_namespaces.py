"""Namespaces whose pods API servers do not send to the webhooks.

namespace and its labels ──▶ find_unreviewed() ──▶ why its pods are not reviewed; None: they are reviewed

Pure. The webhooks exclude these namespaces in their namespaceSelector (admission/reviewers.py).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

SYSTEM: Final = "kube-system"
"""Name of the namespace of Kubernetes itself."""

EXCLUDED_LABEL: Final = ("control-plane", "openkruise")
"""Label of namespaces that the webhooks exclude."""


class Unreviewed(msgspec.Struct, frozen=True):
    """A namespace whose pods are not reviewed."""

    namespace: str
    is_by_name: bool
    """Whether the webhooks exclude the namespace by its name; otherwise they exclude it by its label."""


def list_excluded_names(own_namespace: str) -> tuple[str, str]:
    """Return the names of the namespaces whose pods the webhooks exclude. `own_namespace`: the manager's namespace."""
    return SYSTEM, own_namespace


def find_unreviewed(namespace: str, labels: Mapping[str, str], *, own_namespace: str) -> Unreviewed | None:
    """Return why API servers send no reviews of pods in the namespace; None if they send them."""
    if namespace in list_excluded_names(own_namespace):
        return Unreviewed(namespace, is_by_name=True)
    label, value = EXCLUDED_LABEL
    return Unreviewed(namespace, is_by_name=False) if labels.get(label) == value else None
