"""The kinds of patch that an API server accepts."""

from enum import StrEnum

__all__ = ["PatchType"]


class PatchType(StrEnum):
    """Content type of a patch request; the value is that of the Content-Type header."""

    JSON = "application/json-patch+json"
    """RFC 6902: a list of operations, with `test` for preconditions."""

    MERGE = "application/merge-patch+json"
    """RFC 7396: the only merge for custom resources."""

    STRATEGIC = "application/strategic-merge-patch+json"
    """Kubernetes' own merge: lists of built-in kinds are merged by their keys."""

    APPLY = "application/apply-patch+yaml"
    """Server-side apply."""
