"""Defaults that admission writes into a BroadcastJob (either version).

document ──▶ with_defaults() ──▶ the document as it is to be stored

Pure; the document that comes in is not changed. Rule: the original's mutating webhook, but for the restart policy,
without which it lets the core default `Always` in, and then refuses that.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, same, without_nulls
from pykruise.pods.jobs.job_rules import with_pod_defaults
from pykruise.pods.template.defaults import DefaultingSettings

ALL_AT_ONCE: Final = 2**31 - 1
"""The default parallelism."""


def with_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: DefaultingSettings = DefaultingSettings(),  # noqa: B008 - frozen
) -> Document:
    """The document with defaults. `old` is the stored one on an update: a template that did not change is left as it
    is."""
    spec = without_nulls(doc.get("spec"))
    spec.setdefault("parallelism", ALL_AT_ONCE)
    for policy, default in (("completionPolicy", "Always"), ("failurePolicy", "FailFast")):
        given = spec.get(policy) or {}
        spec[policy] = {**given, "type": given.get("type") or default}
    if spec.get("template"):
        stored = ((old or {}).get("spec") or {}).get("template")
        is_new = not same(stored, spec["template"])
        complete = is_new and not settings.template_no_defaults
        spec["template"] = with_pod_defaults(spec["template"], complete=complete)
    return {**doc, "spec": spec}
