"""Namespaces that get a resource.

DistributionView, a namespace ──▶ is_target()      DistributionView, all namespaces ──▶ list_target_names()

Pure. This is the rule of OpenKruise: all, named or selected namespaces, except excluded namespaces and system
namespaces.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pykruise.kinds.resourcedistribution.snapshot import ReadableDistributionView
from pykruise.kinds.resourcedistribution.view import DistributionView
from pykruise.plans.views import NamespaceView

NEVER: Final = frozenset({"kube-system", "kube-public"})
"""Namespaces that never receive a copy."""


def is_target(view: DistributionView, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a namespace with this name and these labels gets the resource."""
    if view.spec is None or name in NEVER or name in view.excluded:
        return False
    return view.spec.targets.all_namespaces or name in view.included or view.selector.matches(labels)


def list_never_targets(included: Collection[str], excluded: Collection[str]) -> list[str]:
    """Sorted names of the namespaces that never receive a copy although the spec names them. `included`, `excluded`:
    namespaces that the spec includes and excludes by their names.
    """
    return sorted(name for name in NEVER if name in included and name not in excluded)


def list_target_names(view: ReadableDistributionView, namespaces: Iterable[NamespaceView]) -> list[str]:
    """Sorted names of all target namespaces: existing namespaces, and namespaces that the spec names even if they do
    not exist.
    """
    names = {namespace.name for namespace in namespaces if is_target(view, namespace.name, namespace.labels)}
    if not view.spec.targets.all_namespaces:
        names |= view.included - view.excluded - NEVER
    return sorted(names)
