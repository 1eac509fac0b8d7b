"""A NodeImage as decisions see it: the images that its node should pull, and their progress.

JSON of a NodeImage ──▶ project_node_image() ──▶ NodeImageView ──▶ kinds/nodeimage, kinds/imagepulljob
two views of one NodeImage ──▶ list_changed_tags() ──▶ the tags that an event concerns

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_image_api import (
    NODE_IMAGES,
    ImageSpec,
    NodeImageSpec,
    NodeImageStatus,
    TagSpec,
    TagStatus,
)

__all__ = [
    "EVERY_TAG",
    "FAILED",
    "NODE_IMAGES",
    "PULLING",
    "SUCCEEDED",
    "WAITING",
    "NodeImageView",
    "is_over",
    "list_changed_tags",
    "list_owner_uids",
    "project_node_image",
]

WAITING: Final = "Waiting"
PULLING: Final = "Pulling"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

EVERY_TAG: Final = ""
"""Member of `list_changed_tags`: the change concerns all tags of the image."""


class NodeImageView(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeImage. It has the same name as its node."""

    namespace: str = ""
    name: str
    uid: str
    """UID; empty if the NodeImage does not exist yet."""
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    is_deleting: bool = False
    images: Mapping[str, ImageSpec] = {}
    """Images by name without tag."""
    statuses: Mapping[ImageName, TagStatus] = {}
    stored_status: Document = {}
    problem: str = ""
    """`<path>: <what is wrong>` when the object cannot be read (it bypassed the schema); empty otherwise."""

    def find_entry(self, image: ImageName) -> TagSpec | None:
        """Requested entry of this image; None if the image is not requested."""
        spec = self.images.get(image.name)
        if spec is None:
            return None
        return next((tag for tag in spec.tags if tag.tag == image.tag), None)

    @property
    def entries(self) -> Iterator[tuple[ImageName, TagSpec]]:
        """All requested images with their entries."""
        return ((ImageName(name, tag.tag), tag) for name, spec in self.images.items() for tag in spec.tags)


def is_over(entry: TagSpec, status: TagStatus | None) -> bool:
    """Whether the status reports that the pull of this entry has ended. A status of another version is ignored."""
    return status is not None and status.version == entry.version and bool(status.completion_time)


def list_owner_uids(view: NodeImageView) -> frozenset[str]:
    """The uids of all objects that request an image on the node."""
    return frozenset(ref.uid for _, tag in view.entries for ref in tag.owner_references or () if ref.uid)


def list_changed_tags(old: NodeImageView, new: NodeImageView) -> Iterator[tuple[str, str]]:
    """Images (name, tag) with a changed entry or status. A change of secrets or sandbox yields the tag EVERY_TAG."""
    for name in {**old.images, **new.images}:
        before, after = old.images.get(name), new.images.get(name)
        if before is None or after is None or _read_pull_context(before) != _read_pull_context(after):
            yield name, EVERY_TAG
            continue
        for tag in _find_differing_keys(
            {tag.tag: tag for tag in before.tags}, {tag.tag: tag for tag in after.tags}
        ):
            yield name, tag
    for image in _find_differing_keys(old.statuses, new.statuses):
        yield image.name, image.tag


def _read_pull_context(image: ImageSpec) -> tuple[object, object]:
    return image.pull_secrets or (), image.sandbox_config


def _find_differing_keys(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Iterator[Any]:
    return (key for key in {**old, **new} if old.get(key) != new.get(key))


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _NodeImage(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_decode_object = msgspec.json.Decoder(_NodeImage).decode
_decode_spec = msgspec.json.Decoder(NodeImageSpec | None).decode
_decode_status = msgspec.json.Decoder(NodeImageStatus | None).decode


def project_node_image(raw: bytes | msgspec.Raw) -> NodeImageView:
    """Decode a NodeImage's JSON text into its view. Raises msgspec.DecodeError when the text is not an object."""
    node_image = _decode_object(raw)
    meta = node_image.metadata
    spec, wrong_spec = _read(node_image.spec, _decode_spec, NodeImageSpec, "spec")
    status, wrong_status = _read(node_image.status, _decode_status, NodeImageStatus, "status")
    return NodeImageView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        labels=meta.labels or {},
        is_deleting=meta.deletion_timestamp is not None,
        images=(spec.images if spec else None) or {},
        statuses={
            ImageName(name, tag.tag): tag
            for name, image in ((status.image_statuses if status else None) or {}).items()
            for tag in image.tags
        },
        stored_status=_to_document(node_image.status),
        problem=wrong_spec or wrong_status,
    )


def _read(raw: msgspec.Raw, decode_text: Any, kind: type[Any], path: str) -> tuple[Any, str]:
    """Decode the text directly, which nearly always works; otherwise read it again with nulls as absent fields."""
    try:
        return decode_text(raw), ""
    except msgspec.ValidationError:
        return read(_to_document(raw), kind, path=path)


def _to_document(raw: msgspec.Raw) -> Document:
    return decode(raw) if bytes(memoryview(raw)[:1]) == b"{" else {}
