"""Defaults that admission writes into an ImagePullJob (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure; the input document is not changed. Same rules as OpenKruise's mutating webhook.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.pods.images.pull_rules import add_pull_defaults

FINALIZER: Final = "apps.kruise.io/deletion-protection"
"""Finalizer of a job whose copied secrets are not released yet. The controller adds it, in either version."""


def add_defaults(doc: Mapping[str, Any]) -> Document:
    """Return the document with defaults."""
    spec = {name: value for name, value in (doc.get("spec") or {}).items() if value is not None}
    return {**doc, "spec": add_pull_defaults(spec, pull_policy=True)}
