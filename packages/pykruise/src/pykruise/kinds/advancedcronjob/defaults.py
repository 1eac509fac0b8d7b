"""Defaults that admission writes into an AdvancedCronJob (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure: the input document does not change. Same rules as OpenKruise's mutating webhook, except that pods get another
default restart policy: with OpenKruise's default, no child could be created.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document, drop_nulls, get_path, is_same
from pykruise.pods.jobs.job_rules import add_pod_defaults
from pykruise.pods.template.defaults import DefaultingSettings


def add_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: DefaultingSettings = DefaultingSettings(),  # noqa: B008 - frozen
) -> Document:
    """Return the document with defaults. `old` is the stored document on an update. An unchanged template gets no new
    defaults.
    """
    spec = drop_nulls(doc.get("spec"))
    template: Document = spec.get("template") or {}
    pulls = template.get("imageListPullJobTemplate") is not None
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or ("Replace" if pulls else "Allow")
    spec.setdefault("paused", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    stored = ((old or {}).get("spec") or {}).get("template")
    if template:
        is_new = not is_same(stored, template)
        spec["template"] = _complete_template(template, complete=is_new, settings=settings)
    return {**doc, "spec": spec}


def _complete_template(template: Document, *, complete: bool, settings: DefaultingSettings) -> Document:
    result = dict(template)
    for field in ("jobTemplate", "broadcastJobTemplate"):
        if pod := get_path(result, field, "spec", "template"):
            job = result[field]
            spec = {**job["spec"], "template": add_pod_defaults(pod, complete=complete, settings=settings)}
            result[field] = {**job, "spec": spec}
    pulls = result.get("imageListPullJobTemplate")
    if pulls is not None:
        result["imageListPullJobTemplate"] = {**pulls, "spec": _fill_pull_defaults(pulls.get("spec") or {})}
    return result


def _fill_pull_defaults(spec: Document) -> Document:
    """Set defaults if the completion policy has no type; otherwise the webhook of ImageListPullJobs sets them when a
    child is created. OpenKruise does the same.
    """
    completion, pull = (spec.get(policy) or {} for policy in ("completionPolicy", "pullPolicy"))
    if completion.get("type"):
        return spec
    return {
        **spec,
        "completionPolicy": {**completion, "type": "Always"},
        "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3, **drop_nulls(pull)},
        "imagePullPolicy": spec.get("imagePullPolicy") or "IfNotPresent",
    }
