"""Defaults that admission writes into an ImageListPullJob (either version).

document ──▶ with_defaults() ──▶ the document as it is to be stored

Pure; the document that comes in is not changed. Rule: the original's mutating webhook; whether images that are there
are pulled again gets its default in the ImagePullJobs.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document
from pykruise.pods.images.pull_rules import with_pull_defaults


def with_defaults(doc: Mapping[str, Any]) -> Document:
    """The document with defaults."""
    spec = {name: value for name, value in (doc.get("spec") or {}).items() if value is not None}
    return {**doc, "spec": with_pull_defaults(spec, pull_policy=False)}
