"""What admission writes into an ImagePullJob (either version) that leaves it out.

document ──▶ with_defaults() ──▶ the document as it is to be stored

Pure; the document that comes in is not changed. Rule: the original's mutating webhook.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.pods.pull_rules import with_pull_defaults

__all__ = ["FINALIZER", "with_defaults"]

FINALIZER: Final = "apps.kruise.io/deletion-protection"
"""Keeps a job until the secrets that were copied for it are released."""


def with_defaults(doc: Mapping[str, Any], *, held: bool) -> Document:
    """The document with defaults. `held`: with the finalizer, which else its controller adds."""
    spec = {name: value for name, value in (doc.get("spec") or {}).items() if value is not None}
    found = {**doc, "spec": with_pull_defaults(spec, pull_policy=True)}
    metadata = doc.get("metadata") or {}
    finalizers = metadata.get("finalizers") or []
    if held and FINALIZER not in finalizers:
        found["metadata"] = {**metadata, "finalizers": [*finalizers, FINALIZER]}
    return found
