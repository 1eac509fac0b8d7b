"""The workloads, one folder a kind.

crds() ──▶ what a cluster must know     conversions() ──▶ how objects go between their versions
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.cloneset.conversion import CONVERSION as CLONE_SET_CONVERSION
from pykruise.kinds.cloneset.crd import crd as cloneset_crd
from pykruise.kube.conversion import Conversion, Conversions
from pykruise.kube.documents import Document

__all__ = ["conversions", "crds"]

_CONVERSIONS: tuple[Conversion, ...] = (CLONE_SET_CONVERSION,)


def crds(conversion: Mapping[str, Any] | None = None) -> list[Document]:
    """The CustomResourceDefinitions of every kind there is.

    `conversion` is the stanza of that name for the kinds with two versions (kube/crds.py: `webhook_conversion`);
    without it the API server only changes the apiVersion, which loses what is called differently.
    """
    return [cloneset_crd(conversion)]


def conversions() -> Conversions:
    """How the objects of every kind with two versions are converted, by group and kind."""
    return {(each.group, each.kind): each for each in _CONVERSIONS}
