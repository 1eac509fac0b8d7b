"""Rules of Jobs and CronJobs.

    a job as sent ──▶ JobStrategy ──▶ a job as stored (with a selector of its own), or Causes

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    format_go_string_map,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_immutable,
    check_not_negative,
    check_selector,
    format_go_selector,
    selects,
)
from pykruise.kube.pod_rules.pods import check_pod_template
from pykruise.kube.schemas.releases import Release
from pykruise.kube.values.cron import ScheduleError, parse_schedule
from pykruise.sandbox.apiserver.builtin.pod_spec import fill_pod_spec
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy

Doc = Mapping[str, Any]


class JobStrategy(BuiltinStrategy):
    """Jobs: the server generates the selector from the job's uid."""

    tracks_generation = True
    has_status = True

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        _fill_job_spec(spec)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        metadata = doc.setdefault("metadata", {})
        if labels and not metadata.get("labels"):
            metadata["labels"] = dict(labels)
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {}
        if not doc["spec"].get("manualSelector"):
            _generate_selector(doc)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_job(doc.get("spec") or {}, self.release))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        # A real server checks an update both as a new object and as an update, and reports each fault twice.
        causes = [*_check_generated_selector(new), *_check_job(new["spec"], self.release)]
        causes += _check_job(new["spec"], self.release)
        return causes + list(_check_job_changes(new["spec"], old["spec"]))


def _fill_job_spec(spec: Document) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    fill_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


_PREFIX: Final = "batch.kubernetes.io/"


def _generate_selector(doc: Document) -> None:
    metadata, spec = doc.setdefault("metadata", {}), doc["spec"]
    uid, name = metadata.get("uid") or "", metadata.get("name") or ""
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    labels = template.get("labels") or {}
    took_labels = not metadata.get("labels") or metadata["labels"] == labels
    template["labels"] = {
        **labels,
        f"{_PREFIX}controller-uid": uid,
        "controller-uid": uid,
        f"{_PREFIX}job-name": name,
        "job-name": name,
    }
    if took_labels:
        metadata["labels"] = dict(template["labels"])
    selector = spec.get("selector") or {}
    spec["selector"] = {
        **selector,
        "matchLabels": {**(selector.get("matchLabels") or {}), f"{_PREFIX}controller-uid": uid},
    }


def _check_generated_selector(doc: Doc) -> Causes:
    metadata, spec = doc.get("metadata") or {}, doc["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    uid, name = metadata.get("uid") or "", metadata.get("name") or ""
    expected = {
        f"{_PREFIX}controller-uid": uid,
        "controller-uid": uid,
        f"{_PREFIX}job-name": name,
        "job-name": name,
    }
    if not selects(spec["selector"], expected):
        yield make_invalid_shown_error(
            "spec.selector", format_go_selector(spec["selector"]), "`selector` not auto-generated"
        )


def _check_job(spec: Doc, release: Release, path: str = "spec") -> Causes:
    yield from _check_job_spec(spec, path, release)
    selector = spec.get("selector")
    if selector is None:
        yield make_required_error(f"{path}.selector")
    else:
        yield from check_selector(selector, f"{path}.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not selects(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield make_invalid_shown_error(
            f"{path}.template.metadata.labels", format_go_string_map(labels), detail
        )


def _check_job_spec(spec: Doc, path: str, release: Release) -> Causes:
    # Imported when the first job is written, so that an API server starts faster.
    from pykruise.sandbox.apiserver.builtin.job_policies import (
        check_index_limits,
        check_managed_by,
        check_policies,
    )

    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        yield from check_not_negative(spec.get(field), f"{path}.{field}")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield make_required_error(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from check_managed_by(spec.get("managedBy"), f"{path}.managedBy")
    mode = spec.get("completionMode")
    if mode not in ("NonIndexed", "Indexed"):
        yield make_not_supported_error(f"{path}.completionMode", mode or "", ("NonIndexed", "Indexed"))
    yield from check_index_limits(spec, path)
    yield from check_policies(spec, path)
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        yield make_not_supported_error(f"{path}.podReplacementPolicy", replacement, allowed)
    yield from check_pod_template(spec.get("template") or {}, f"{path}.template", release)
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if policy in (None, "", "Always"):
        yield make_required_error(place, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield make_not_supported_error(place, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") and policy != "Never":
        yield make_invalid_error(
            place, policy, 'only "Never" is supported when podFailurePolicy is specified'
        )


def _check_job_changes(new: Doc, old: Doc) -> Causes:
    if new.get("completionMode") != "Indexed" and new.get("completions") != old.get("completions"):
        yield make_invalid_error("spec.completions", new.get("completions"), "field is immutable")
    elif new.get("completions") != old.get("completions") and new.get("completions") != new.get(
        "parallelism"
    ):
        detail = "can only be modified in tandem with spec.parallelism"
        yield make_invalid_error("spec.completions", new.get("completions"), detail)
    if not is_same(new.get("selector"), old.get("selector")):
        yield make_invalid_shown_error(
            "spec.selector", format_go_selector(new.get("selector")), "field is immutable"
        )
    if not is_same(_select_frozen_template(new, old), _select_frozen_template(old, old)):
        yield make_invalid_shown_error("spec.template", "core.PodTemplateSpec{…}", "field is immutable")
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"):
        yield from check_immutable(new.get(field), old.get(field), f"spec.{field}")
    if not is_same(policy := new.get("successPolicy"), old.get("successPolicy")):
        from pykruise.sandbox.apiserver.builtin.job_policies import show_success_policy

        yield make_invalid_shown_error(
            "spec.successPolicy", show_success_policy(policy), "field is immutable"
        )


def _select_frozen_template(spec: Doc, old: Doc) -> Any:
    """Return the parts of the template that must not change. In a suspended job, labels, annotations and the fields
    that decide where the pods are scheduled may change.
    """
    template = spec.get("template") or {}
    if not old.get("suspend"):
        return template
    pod = template.get("spec") or {}
    fixed = {key: value for key, value in pod.items() if key not in _MOVABLE}
    metadata = {
        key: value
        for key, value in (template.get("metadata") or {}).items()
        if key not in ("annotations", "labels")
    }
    return {"metadata": metadata, "spec": fixed}


_MOVABLE: Final = frozenset({"affinity", "nodeSelector", "schedulingGates", "tolerations"})


class CronJobStrategy(BuiltinStrategy):
    """CronJobs."""

    tracks_generation = True
    has_status = True

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        # Only the inner pod template has defaults here: a job gets its own defaults when it is created.
        fill_pod_spec(job.setdefault("template", {}).setdefault("spec", {}))
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {}
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        name = (doc.get("metadata") or {}).get("name") or ""
        return list(_check_cron_job(doc.get("spec") or {}, name, self.release))


def _check_cron_job(spec: Doc, name: str, release: Release) -> Causes:
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield make_required_error("spec.schedule")
    else:
        if detail := _find_schedule_error(schedule):
            yield make_invalid_error("spec.schedule", schedule, detail)
        if "TZ" in schedule:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            yield make_invalid_error("spec.schedule", schedule, detail)
    if (zone := spec.get("timeZone")) is not None and not _is_time_zone(zone):
        yield make_invalid_error("spec.timeZone", zone, f"unknown time zone {zone}")
    yield from check_not_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    if spec.get("concurrencyPolicy") not in ("Allow", "Forbid", "Replace"):
        allowed = ("Allow", "Forbid", "Replace")
        yield make_not_supported_error("spec.concurrencyPolicy", spec.get("concurrencyPolicy") or "", allowed)
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from check_not_negative(spec.get(field), f"spec.{field}")
    job = {"completionMode": "NonIndexed", **((spec.get("jobTemplate") or {}).get("spec") or {})}
    if job.get("manualSelector"):
        detail = "`manualSelector` must not be set in a job template"
        yield make_forbidden_error("spec.jobTemplate.spec.manualSelector", detail)
    yield from _check_job_spec(job, "spec.jobTemplate.spec", release)
    if len(name) > 52:
        yield make_invalid_error("metadata.name", name, "must be no more than 52 characters")


def _is_time_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _find_schedule_error(schedule: str) -> str:
    """Return the parser's error; empty when the schedule is valid."""
    try:
        parse_schedule(schedule)
    except ScheduleError as err:
        return str(err)
    return ""
