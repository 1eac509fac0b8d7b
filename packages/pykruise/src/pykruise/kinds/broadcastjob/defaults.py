"""Defaults that admission writes into a BroadcastJob (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure; the input document is not changed. Same rules as OpenKruise's mutating webhook, except for the restart policy: if
it is absent, OpenKruise's mutating webhook writes the core default `Always`, and its validating webhook rejects it.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, drop_nulls, is_same
from pykruise.pods.jobs.job_rules import add_pod_defaults
from pykruise.pods.template.defaults import DefaultingSettings

ALL_AT_ONCE: Final = 2**31 - 1
"""The default parallelism."""


def add_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: DefaultingSettings = DefaultingSettings(),  # noqa: B008 - frozen
) -> Document:
    """Return the document with defaults. `old` is the stored document on an update. An unchanged template gets no
    defaults.
    """
    spec = drop_nulls(doc.get("spec"))
    spec.setdefault("parallelism", ALL_AT_ONCE)
    for policy, default in (("completionPolicy", "Always"), ("failurePolicy", "FailFast")):
        given = spec.get(policy) or {}
        spec[policy] = {**given, "type": given.get("type") or default}
    if spec.get("template"):
        stored = ((old or {}).get("spec") or {}).get("template")
        is_new = not is_same(stored, spec["template"])
        spec["template"] = add_pod_defaults(spec["template"], complete=is_new, settings=settings)
    return {**doc, "spec": spec}
