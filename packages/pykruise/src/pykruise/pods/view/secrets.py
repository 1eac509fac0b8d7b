"""Secrets and ConfigMaps as caches keep them: their metadata and, for whole objects, a digest of their contents.

metadata of a Secret or ConfigMap ──▶ project_copy() ──▶ CopyView: its owner and its version
a whole Secret or ConfigMap ──▶ project_copy(), content_of() ──▶ the same with a digest of its contents

Pure. Only digests of contents are kept: a manager does not keep the contents of Secrets in memory.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, decode, encode_canonical
from pykruise.kube.resources import CONFIG_MAPS, SECRETS, Resource
from pykruise.pods.view.pod_view import ControllerView

COPIED: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (SECRETS, CONFIG_MAPS)}
"""Copied resources by kind."""

KEPT_ANNOTATIONS: Final = "imagepulljobs.kruise.io/"
"""Prefix of the annotations that are kept."""


_MAPS: Final = ("data", "binaryData")


class CopyView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Secret or ConfigMap."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    controller: ControllerView | None = None
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    is_immutable: bool = False
    """Whether a whole object is marked as immutable."""
    secret_type: str = ""
    """Type of a whole Secret, which cannot be changed; empty for other objects."""
    content: str = ""
    """Digest of the contents; empty if only the metadata is known."""
    has: tuple[str, ...] = ()
    """Fields `data` and `binaryData` that a whole object has."""
    annotations: Mapping[str, str] = {}
    """Annotations that name the source of the copy, and its users (KEPT_ANNOTATIONS)."""


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    kind: str = ""


_decode_object = msgspec.json.Decoder(_Object).decode


def project_copy(raw: bytes | msgspec.Raw, *, kind: str = "") -> CopyView:
    """Decode a Secret or ConfigMap, whole or metadata only, into its view. Raises ValueError when the text is
    neither.

    `kind`: kind of an item in a list of whole objects, because such an item does not contain its kind.
    """
    result = _decode_object(raw)
    meta, kind = result.metadata, result.kind or kind
    whole = decode(raw) if kind in COPIED else None
    contents = read_contents(kind, whole) if whole is not None else {}
    return CopyView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        controller=_find_controller(meta.owner_references or ()),
        is_deleting=meta.deletion_timestamp is not None,
        finalizers=meta.finalizers or (),
        is_immutable=whole is not None and whole.get("immutable") is True,
        secret_type=str(contents.get("type") or ""),
        content=_compute_digest(contents) if whole is not None else "",
        has=tuple(field for field in _MAPS if whole is not None and field in whole),
        annotations={
            name: value
            for name, value in (meta.annotations or {}).items()
            if name.startswith(KEPT_ANNOTATIONS)
        },
    )


def _find_controller(owners: tuple[_Owner, ...]) -> ControllerView | None:
    for owner in owners:
        if owner.controller:
            group, _, _ = owner.api_version.rpartition("/")
            return ControllerView(group, owner.kind, owner.name, owner.uid)
    return None


def content_of(kind: str, document: Mapping[str, Any]) -> str:
    """Digest of a Secret's or ConfigMap's contents, equal for objects that an API server stores equally."""
    return _compute_digest(read_contents(kind, document))


def _compute_digest(contents: Document) -> str:
    return hashlib.sha256(encode_canonical(contents)).hexdigest()


def read_contents(kind: str, document: Mapping[str, Any]) -> Document:
    """Fields of a Secret or ConfigMap besides its metadata, as an API server would store them.

    Empty fields are left out. Unlike OpenKruise, `stringData` is compared as the `data` that it becomes.
    """
    data = dict(document.get("data") or {})
    contents: Document = {}
    if kind == SECRETS.kind:
        for name, text in (document.get("stringData") or {}).items():
            data[name] = b64encode(("" if text is None else str(text)).encode()).decode()
        contents["type"] = document.get("type") or "Opaque"
    elif document.get("binaryData"):
        contents["binaryData"] = _to_stored_map(document["binaryData"], is_binary=True)
    if data:
        contents["data"] = _to_stored_map(data, is_binary=kind == SECRETS.kind)
    if document.get("immutable"):
        contents["immutable"] = True
    return contents


def _to_stored_map(values: Mapping[str, Any], *, is_binary: bool) -> Document:
    return {name: _to_stored(value, is_binary=is_binary) for name, value in values.items()}


def _to_stored(value: Any, *, is_binary: bool) -> Any:
    """The value as an API server stores it: empty text for null, and bytes in standard base64."""
    if value is None:
        return ""
    if not is_binary or not isinstance(value, str):
        return value
    try:
        return b64encode(b64decode(value)).decode()
    except ValueError:
        return value
