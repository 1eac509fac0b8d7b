"""Defaults that admission writes into an AdvancedCronJob (either version).

document ──▶ with_defaults() ──▶ the document as it is to be stored

Pure; the document that comes in is not changed. Rule: the original's mutating webhook, but for the restart policy of
pods, without which no child could be made.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document, get_path, same, without_nulls
from pykruise.pods.jobs.job_rules import with_pod_defaults
from pykruise.pods.template.defaults import DefaultingSettings


def with_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: DefaultingSettings = DefaultingSettings(),  # noqa: B008 - frozen
) -> Document:
    """The document with defaults. `old` is the stored one on an update: a template that did not change is left as it
    is."""
    spec = without_nulls(doc.get("spec"))
    template: Document = spec.get("template") or {}
    pulls = template.get("imageListPullJobTemplate") is not None
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or ("Replace" if pulls else "Allow")
    spec.setdefault("paused", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    stored = ((old or {}).get("spec") or {}).get("template")
    if template:
        is_new = not same(stored, template)
        spec["template"] = _template(template, complete=is_new and not settings.template_no_defaults)
    return {**doc, "spec": spec}


def _template(template: Document, *, complete: bool) -> Document:
    result = dict(template)
    for field in ("jobTemplate", "broadcastJobTemplate"):
        if pod := get_path(result, field, "spec", "template"):
            job = result[field]
            spec = {**job["spec"], "template": with_pod_defaults(pod, complete=complete)}
            result[field] = {**job, "spec": spec}
    pulls = result.get("imageListPullJobTemplate")
    if pulls is not None:
        result["imageListPullJobTemplate"] = {**pulls, "spec": _pull_spec(pulls.get("spec") or {})}
    return result


def _pull_spec(spec: Document) -> Document:
    """With a type given, the child's own webhook does the rest. Rule: the original's."""
    completion, pull = (spec.get(policy) or {} for policy in ("completionPolicy", "pullPolicy"))
    if completion.get("type"):
        return spec
    return {
        **spec,
        "completionPolicy": {**completion, "type": "Always"},
        "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3, **without_nulls(pull)},
        "imagePullPolicy": spec.get("imagePullPolicy") or "IfNotPresent",
    }
