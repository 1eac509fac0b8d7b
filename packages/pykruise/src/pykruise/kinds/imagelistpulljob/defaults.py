"""Defaults that admission writes into an ImageListPullJob (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure; the input document is not changed. Same rules as OpenKruise's mutating webhook. The default of the image pull
policy is not added here, but to the ImagePullJobs.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document
from pykruise.pods.images.pull_rules import add_pull_defaults


def add_defaults(doc: Mapping[str, Any]) -> Document:
    """Return the document with defaults."""
    spec = {name: value for name, value in (doc.get("spec") or {}).items() if value is not None}
    return {**doc, "spec": add_pull_defaults(spec, pull_policy=False)}
