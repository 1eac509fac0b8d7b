"""The workloads, one folder a kind."""

from pykruise.kinds.cloneset.crd import crd as cloneset_crd
from pykruise.kube.documents import Document

__all__ = ["crds"]


def crds() -> list[Document]:
    """The CustomResourceDefinitions of every kind there is."""
    return [cloneset_crd()]
