"""The NodeImage kind in its hub version, v1beta1. Its parts are shared: pods/images/node_image_api.py.

JSON of the API server ──▶ NodeImage ──▶ its schema; for decisions see pods/images/node_images.py
"""

from pykruise.kube.schemas.types import ApiObject
from pykruise.pods.images.node_image_api import NODE_IMAGES, NodeImageSpec, NodeImageStatus

__all__ = ["NODE_IMAGES", "NodeImage", "NodeImageSpec", "NodeImageStatus"]


class NodeImage(ApiObject, frozen=True, kw_only=True):
    """Lists the images that the node with the same name should have."""

    api_version: str = NODE_IMAGES.api_version
    kind: str = NODE_IMAGES.kind
    spec: NodeImageSpec | None = None
    status: NodeImageStatus | None = None
