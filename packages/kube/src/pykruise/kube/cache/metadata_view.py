"""Existence and version of objects, for caches whose users only need to know that an object changed. Pure."""

import msgspec

__all__ = ["MetadataView", "project_metadata"]


class MetadataView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fields that every cached object has."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    """Increases when the spec changes."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


def project_metadata(raw: bytes | msgspec.Raw) -> MetadataView:
    """Decode the metadata of an object. Raises msgspec.DecodeError."""
    meta = _decode(raw).metadata
    return MetadataView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
    )
