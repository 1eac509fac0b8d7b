"""NodeImages between v1alpha1 and v1beta1: secrets have a mode in v1beta1 only."""

from typing import Final

from pykruise.kube.conversion import Conversion, drop, each, section
from pykruise.kube.documents import Document
from pykruise.pods.node_image_api import NODE_IMAGES

__all__ = ["CONVERSION"]


def to_spoke(doc: Document) -> Document:
    """v1beta1 as v1alpha1."""
    for image in each((section(doc, "spec") or {}).get("images")):
        for secret in each(image.get("pullSecrets")):
            drop(secret, "mode")
    return doc


CONVERSION: Final = Conversion(NODE_IMAGES, "v1alpha1", to_spoke=to_spoke)
