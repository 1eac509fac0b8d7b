"""The workloads, one folder a kind.

crds() ──▶ what a cluster must know     conversions() ──▶ how objects go between their versions
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykruise.kinds.cloneset.conversion import CONVERSION as CLONE_SET
from pykruise.kinds.cloneset.crd import crd as clone_set_crd
from pykruise.kinds.sidecarset.conversion import CONVERSION as SIDECAR_SET
from pykruise.kinds.sidecarset.crd import crd as sidecar_set_crd
from pykruise.kinds.statefulset.conversion import CONVERSION as STATEFUL_SET
from pykruise.kinds.statefulset.crd import crd as stateful_set_crd
from pykruise.kinds.workloadspread.conversion import CONVERSION as WORKLOAD_SPREAD
from pykruise.kinds.workloadspread.crd import crd as workload_spread_crd
from pykruise.kube.conversion import Conversion, Conversions
from pykruise.kube.documents import Document

__all__ = ["conversions", "crds"]

_TWO_VERSIONS: Final[tuple[Callable[[Mapping[str, Any] | None], Document], ...]] = (
    clone_set_crd,
    sidecar_set_crd,
    stateful_set_crd,
    workload_spread_crd,
)

_CONVERSIONS: Final[tuple[Conversion, ...]] = (CLONE_SET, SIDECAR_SET, STATEFUL_SET, WORKLOAD_SPREAD)


def crds(conversion: Mapping[str, Any] | None = None) -> list[Document]:
    """The CustomResourceDefinitions of every kind there is.

    `conversion` is the stanza of that name for the kinds with two versions (kube/crds.py: `webhook_conversion`);
    without it the API server only changes the apiVersion, which loses what is called differently.
    """
    return [crd(conversion) for crd in _TWO_VERSIONS]


def conversions() -> Conversions:
    """How the objects of every kind with two versions are converted, by group and kind."""
    return {(each.group, each.kind): each for each in _CONVERSIONS}
