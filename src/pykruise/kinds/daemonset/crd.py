"""The CustomResourceDefinition of Advanced DaemonSets, made from the types.

types.py, v1alpha1.py ──▶ crd() ──▶ a document for `install`, the sandbox, and the comparison with the original

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSet
from pykruise.kinds.daemonset.v1alpha1 import DaemonSetV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("DESIRED", "integer", ".status.desiredNumberScheduled"),
    Column("CURRENT", "integer", ".status.currentNumberScheduled"),
    Column("READY", "integer", ".status.numberReady"),
    Column("UP-TO-DATE", "integer", ".status.updatedNumberScheduled"),
    Column("AVAILABLE", "integer", ".status.numberAvailable"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
    Column("CONTAINERS", "string", ".spec.template.spec.containers[*].name", priority=1),
    Column("IMAGES", "string", ".spec.template.spec.containers[*].image", priority=1),
)

_VERSIONS = (
    Version(name="v1alpha1", root=DaemonSetV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=DaemonSet, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `daemonsets.apps.kruise.io`."""
    return definition(DAEMON_SETS, versions=_VERSIONS, short_names=("daemon", "ads"))
