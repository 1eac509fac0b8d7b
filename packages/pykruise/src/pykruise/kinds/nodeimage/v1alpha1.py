"""The NodeImage kind in its older version, v1alpha1: secrets have no mode.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written only in the hub version.
"""

from pykruise.kube.schemas.types import ApiObject, Typed
from pykruise.pods.images.node_image_api import (
    NODE_IMAGES,
    CommonImageSpec,
    LegacySecretReference,
    NodeImageStatus,
)


class ImageSpecV1Alpha1(CommonImageSpec, frozen=True, kw_only=True):
    """An image that the node should have."""

    pull_secrets: list[LegacySecretReference] | None = None
    """Secrets for pulling the image."""


class NodeImageSpecV1Alpha1(Typed, frozen=True, kw_only=True):
    """Desired state of the node's images."""

    images: dict[str, ImageSpecV1Alpha1] | None = None
    """Images, by their names without tags. At most 256."""


class NodeImageV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Lists the images that the node with the same name should have."""

    api_version: str = f"{NODE_IMAGES.group}/v1alpha1"
    kind: str = NODE_IMAGES.kind
    spec: NodeImageSpecV1Alpha1 | None = None
    status: NodeImageStatus | None = None
