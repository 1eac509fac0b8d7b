"""Validation of an AdvancedCronJob (either version): all errors in one response, each with its field.

document [+ the stored document] ──▶ errors_of() ──▶ field errors        document ──▶ warnings_of() ──▶ warnings

Pure. For the template of an ImageListPullJob, only the first error is returned, as in OpenKruise.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from pykruise.kinds.advancedcronjob.children import TEMPLATES, has_same_meaning
from pykruise.kinds.advancedcronjob.defaults import add_defaults
from pykruise.kinds.advancedcronjob.types import AdvancedCronJobSpec
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import drop_nulls, get_path, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    make_forbidden_error,
    make_invalid_error,
)
from pykruise.kube.pod_rules.field_rules import check_not_negative
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.cron import ScheduleError, parse_schedule
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.plans.stored_values import to_document
from pykruise.pods.images.api import PullSpec
from pykruise.pods.images.pull_rules import add_pull_defaults, find_image_errors, pull_errors
from pykruise.pods.jobs.job_rules import find_broadcast_amount_errors, find_job_name_errors
from pykruise.pods.template.validation import find_template_errors
from pykruise.pods.workload.validation import find_metadata_errors

MUTABLE: Final = (
    "schedule",
    "timeZone",
    "startingDeadlineSeconds",
    "concurrencyPolicy",
    "paused",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)
_PULLS: Final = "imageListPullJobTemplate"
_PULL_PATH: Final = f"spec.template.{_PULLS}.spec"
_BROADCASTS: Final = "broadcastJobTemplate"
_MOST_IMAGES: Final = 255
_LONGEST_DEADLINE_S: Final = 86_400
"""Maximum activeDeadlineSeconds of an ImageListPullJob: one day."""
_DISTANT: Final = "matches no time within five years"
_ANY_TIME: Final = parse_time("2023-01-01T00:00:00Z")
"""Instant at which the search for a time of the schedule starts. The following five years contain a leap year, so a
schedule without a time in these years never has a time.
"""


def errors_of(
    doc: Mapping[str, Any], spec: AdvancedCronJobSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """Return all field errors of a document whose typed spec is `spec`. `old` is the stored document on an update."""
    metadata = doc.get("metadata") or {}
    given: Mapping[str, Any] = doc["spec"]
    errors = [*find_metadata_errors(metadata)]
    if old is None:
        errors = [*find_job_name_errors(metadata), *errors]
    if old is not None and is_same(given, old["spec"]):
        return errors
    errors += _find_schedule_errors(spec)
    for name, value in (
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        errors += check_not_negative(value, f"spec.{name}")
    stored = get_path(old, "spec", "template", default={})
    errors += _find_job_template_errors(given.get("template") or {}, spec, stored)
    if old is not None:
        errors += _find_immutable_errors(given, old["spec"])
    return errors


def _find_schedule_errors(spec: AdvancedCronJobSpec) -> Iterator[Cause]:
    path, text, zone = "spec.schedule", spec.schedule, spec.time_zone
    if not text:
        yield make_invalid_error(path, text, "schedule must be specified")
    else:
        try:
            parse_schedule(text)
        except ScheduleError as error:
            yield make_invalid_error(path, text, str(error))
        if "TZ" in text and zone is not None:
            yield make_invalid_error(
                path, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            )
    if zone is None:
        return
    path = "spec.timeZone"
    if not zone:
        yield make_invalid_error(path, zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        yield make_invalid_error(
            path, zone, "timeZone must be an explicit time zone as defined in the IANA time zones"
        )
    else:
        try:
            parse_schedule("@daily", zone=zone)
        except ScheduleError as error:
            yield make_invalid_error(path, zone, str(error))


def _find_job_template_errors(
    template: Mapping[str, Any], spec: AdvancedCronJobSpec, stored: Mapping[str, Any]
) -> Iterator[Cause]:
    given = [name for name in TEMPLATES if template.get(name) is not None]
    if len(given) != 1:
        why = "exactly one of jobTemplate, broadcastJobTemplate, imageListPullJobTemplate must be set"
        yield make_forbidden_error("spec.template", why)
    for name in given:
        if name == _PULLS:
            if spec.concurrency_policy not in ("Replace", "Forbid"):
                why = "concurrencyPolicy of imageListPullJobTemplate can only be Replace or Forbid"
                yield make_invalid_error("spec.concurrencyPolicy", spec.concurrency_policy, why)
            first = next(_find_pull_errors(get_path(template, name, "spec", default={})), None)
            if first is not None:
                yield first
        else:
            yield from drop_stored_errors(
                _find_pod_errors(template, name), partial(_find_pod_errors, stored, name)
            )


def _find_pod_errors(template: Mapping[str, Any], name: str) -> list[Cause]:
    """Return the errors of the pod template in the field `name`. Without this field there are none."""
    if template.get(name) is None:
        return []
    pod = get_path(template, name, "spec", "template", default={})
    return find_template_errors(pod, f"spec.template.{name}.spec.template")


def _find_pull_errors(spec: Mapping[str, Any]) -> Iterator[Cause]:
    selector, pods = spec.get("selector"), spec.get("podSelector")
    if selector is not None:
        yield from _find_selector_errors(selector)
    yield from _find_label_errors(pods, f"{_PULL_PATH}.podSelector.labelSelector")
    if selector is not None and pods is not None:
        yield make_invalid_error(_PULL_PATH, "", "selector and podSelector cannot both be set")
    yield from _find_image_errors(spec.get("images"))
    completion = spec.get("completionPolicy") or {}
    path = f"{_PULL_PATH}.completionPolicy"
    if completion.get("type") not in ("Always", None, ""):
        yield make_invalid_error(f"{path}.type", completion["type"], "can only be Always")
    deadline = completion.get("activeDeadlineSeconds")
    timeout = (spec.get("pullPolicy") or {}).get("timeoutSeconds")
    if deadline is not None and deadline > _LONGEST_DEADLINE_S:
        yield make_invalid_error(
            f"{path}.activeDeadlineSeconds", deadline, f"must be at most {_LONGEST_DEADLINE_S}"
        )
    if deadline is not None and timeout is not None and deadline < timeout:
        why = "must not be less than pullPolicy.timeoutSeconds"
        yield make_invalid_error(f"{path}.activeDeadlineSeconds", deadline, why)
    if (ttl := completion.get("ttlSecondsAfterFinished")) is not None:
        yield make_invalid_error(
            f"{path}.ttlSecondsAfterFinished",
            ttl,
            "cannot be set: the history limits of the AdvancedCronJob determine which jobs are kept",
        )


def _find_selector_errors(selector: Mapping[str, Any]) -> Iterator[Cause]:
    path = f"{_PULL_PATH}.selector"
    names = selector.get("names") or []
    labels = {name: selector[name] for name in ("matchLabels", "matchExpressions") if selector.get(name)}
    if names and labels:
        yield make_invalid_error(path, dict(selector), "names and labels cannot both be set")
    yield from _find_label_errors(labels, f"{path}.labelSelector")
    if len(set(names)) != len(names):
        yield make_invalid_error(f"{path}.names", names, "each node can only be named once")


def _find_label_errors(selector: Mapping[str, Any] | None, path: str) -> Iterator[Cause]:
    try:
        parse_selector(selector)
    except SelectorError as error:
        yield make_invalid_error(path, selector, str(error))


def _find_image_errors(images: list[str] | None) -> Iterator[Cause]:
    path = f"{_PULL_PATH}.images"
    if not images:
        yield make_invalid_error(path, [], "must contain at least one image")
        return
    if len(images) > _MOST_IMAGES:
        yield make_invalid_error(path, len(images), f"must not contain more than {_MOST_IMAGES} images")
    elif len(set(images)) != len(images):
        yield make_invalid_error(path, images, "each image can only be named once")
    for image in images:
        yield from find_image_errors(image, path)


def find_pull_job_errors(doc: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[Cause]:
    """Return the first error of the ImageListPullJobs of a new or changed template: if admission rejects them, no image
    is ever pulled.
    """
    template, stored = (get_path(entry, "spec", "template", _PULLS, "spec") for entry in (doc, old))
    if template is None or is_same(template, stored):
        return []
    given = add_pull_defaults(drop_nulls(template), pull_policy=False)
    spec, _ = read(given, PullSpec, path="spec")
    first = None if spec is None else next(pull_errors(spec, given), None)
    if first is None:
        return []
    return [msgspec.structs.replace(first, field=f"{_PULL_PATH}{first.field.removeprefix('spec')}")]


def find_broadcast_job_errors(doc: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[Cause]:
    """Return the errors of the amounts in a new or changed template of BroadcastJobs: admission rejects a new
    BroadcastJob with such amounts. The children of a stored template get valid amounts (children.py).
    """
    template, stored = (get_path(entry, "spec", "template", _BROADCASTS) for entry in (doc, old))
    if template is None or has_same_meaning(_BROADCASTS, template, stored):
        return []
    completion = get_path(template, "spec", "completionPolicy", default={})
    errors = find_broadcast_amount_errors(
        f"spec.template.{_BROADCASTS}.spec",
        parallelism=get_path(template, "spec", "parallelism"),
        deadline_s=completion.get("activeDeadlineSeconds"),
        ttl_s=completion.get("ttlSecondsAfterFinished"),
        restart_limit=get_path(template, "spec", "failurePolicy", "restartLimit"),
    )
    return list(errors)


def _find_immutable_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield an error if the template or another immutable field changed. Of the templates, only that of an
    ImageListPullJob can be changed, and only if it existed before.
    """
    fields = {*new, *old} - {*MUTABLE, "template"}
    template, stored = new.get("template") or {}, old.get("template") or {}
    parts = set(TEMPLATES) - ({_PULLS} if stored.get(_PULLS) is not None else set())
    if all(is_same(new.get(name), old.get(name)) for name in fields) and all(
        has_same_meaning(name, template.get(name), stored.get(name)) for name in parts
    ):
        return
    allowed = ", ".join(f"'{field}'" for field in MUTABLE)
    yield make_forbidden_error(
        "spec", f"updates to advancedcronjob spec for fields other than {allowed} are forbidden"
    )


def warnings_of(doc: Mapping[str, Any], spec: AdvancedCronJobSpec) -> Iterator[str]:
    """Yield warnings about specs that are admitted but perhaps do not work as intended. `spec` can have errors: an
    unchanged stored spec is not validated again.
    """
    template = ("spec", "template")
    for field, kind in (("jobTemplate", "Job"), (_BROADCASTS, "BroadcastJob")):
        if get_path(doc, *template, field, "spec", "template", "spec", "restartPolicy") == "Always":
            yield f"spec.template.{field}: with restartPolicy Always no {kind} can be created"
    policy = get_path(doc, *template, _BROADCASTS, "spec", "completionPolicy", default={})
    if policy.get("type") == "Never" and any(
        policy.get(field) is not None for field in ("ttlSecondsAfterFinished", "activeDeadlineSeconds")
    ):
        yield (
            "spec.template.broadcastJobTemplate.spec.completionPolicy: with type Never, activeDeadlineSeconds and "
            "ttlSecondsAfterFinished must not be set; no BroadcastJob can be created"
        )
    if _has_no_time(spec.schedule):
        yield f"spec.schedule: {_DISTANT}"
    if spec.failed_jobs_history_limit == 0:
        yield (
            "spec.failedJobsHistoryLimit: with 0 each failed run is deleted immediately, with the logs that show why"
            " it failed"
        )
    seconds = spec.starting_deadline_seconds
    if seconds is not None and seconds < 10:
        yield "spec.startingDeadlineSeconds: a busy manager may miss runs if this deadline is less than 10 s"


def _has_no_time(schedule: str) -> bool:
    """Whether the schedule has no time, in any time zone. False for an unreadable schedule, which is an error
    instead.
    """
    try:
        return parse_schedule(schedule).next(_ANY_TIME) is None
    except ScheduleError:
        return False


def find_stored_errors(spec: AdvancedCronJobSpec) -> list[Cause]:
    """Return all field errors of a stored spec. Missing fields get their defaults first."""
    doc = to_document(spec)
    doc = add_defaults(doc, old=doc)
    return errors_of(doc, msgspec.convert(doc["spec"], AdvancedCronJobSpec))
