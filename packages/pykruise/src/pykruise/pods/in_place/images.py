"""Names of images: whether two of them name the same image, and whether a container runs the desired image.

Pure. A pod's spec has `nginx`, but the kubelet reports `docker.io/library/nginx:latest`. An image referenced by digest
appears under any name that the runtime knows.
"""

import msgspec

from pykruise.pods.view.containers import ContainerStatusFacts

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"


class InPlaceImageName(msgspec.Struct, frozen=True):
    """A full image reference such as `docker.io/library/nginx` with tag `latest` and no digest."""

    repository: str
    tag: str = ""
    digest: str = ""


def parse_image_name(text: str) -> InPlaceImageName:
    """Parse an image reference and add the default registry and tag.

    A reference by digest gets no tag. A colon before the last `/` belongs to a port.
    """
    name, _, digest = text.partition("@")
    path, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    repository = _with_registry(f"{path}{slash}{last}")
    return InPlaceImageName(repository, tag or ("" if digest else DEFAULT_TAG), digest)


def _with_registry(repository: str) -> str:
    first, slash, rest = repository.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        if first == f"index.{DEFAULT_REGISTRY}":
            return _with_registry(rest)
        if first == DEFAULT_REGISTRY and "/" not in rest:
            return f"{DEFAULT_REGISTRY}/library/{rest}"
        return repository
    return f"{DEFAULT_REGISTRY}/{repository}" if slash else f"{DEFAULT_REGISTRY}/library/{repository}"


def mean_the_same(left: str, right: str) -> bool:
    """Whether both references name the same image: same repository, and same digest or else same tag."""
    if left == right:
        return True
    item, other = parse_image_name(left), parse_image_name(right)
    if item.repository != other.repository:
        return False
    if item.digest or other.digest:
        return item.digest == other.digest
    return item.tag == other.tag


def is_running(status: ContainerStatusFacts, image: str) -> bool:
    """Whether the kubelet reports that the container runs `image`: by its name, or by its digest.

    Only True is conclusive: an image can have several names, and the kubelet reports only one of them.
    """
    if mean_the_same(status.image, image):
        return True
    digest = parse_image_name(image).digest
    return bool(digest) and (status.image_id.endswith(digest) or status.image.endswith(digest))
