"""Defaults that admission writes into an ImagePullJob (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure; the input document is not changed. Same rules as OpenKruise's mutating webhook.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.pods.images.pull_rules import add_pull_defaults

FINALIZER: Final = "apps.kruise.io/deletion-protection"
"""Finalizer of a job until its copied secrets are released. The controller adds it to every running job, even to a job
without secrets.
"""


def add_defaults(doc: Mapping[str, Any]) -> Document:
    """Return the document with defaults."""
    spec = {name: value for name, value in (doc.get("spec") or {}).items() if value is not None}
    return {**doc, "spec": add_pull_defaults(spec, pull_policy=True)}
