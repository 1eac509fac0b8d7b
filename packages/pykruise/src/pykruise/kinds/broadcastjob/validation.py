"""Validation of a BroadcastJob (either version): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors        spec ──▶ warnings_of() ──▶ warnings

Pure. A value that only OpenKruise accepts is rejected on creation, but not on updates, so a stored job can be changed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.broadcastjob.pod_group import find_option_conflicts
from pykruise.kinds.broadcastjob.types import BroadcastJobSpec
from pykruise.kube.documents import is_same, labels_of
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    make_invalid_error,
    make_required_error,
)
from pykruise.pods.jobs.job_rules import find_broadcast_amount_errors, find_job_name_errors
from pykruise.pods.template.validation import find_template_errors
from pykruise.pods.workload.options import GANG_MIN_COUNT, Option, find_option_errors
from pykruise.pods.workload.validation import find_metadata_errors

OPTIONS: Final[tuple[Option[Any], ...]] = (GANG_MIN_COUNT,)
"""Annotations of a BroadcastJob that are options."""

NAME_LABEL: Final = "broadcastjob-name"
UID_LABEL: Final = "broadcastjob-controller-uid"
OWNED_LABELS: Final = (NAME_LABEL, UID_LABEL)
"""Labels of the job's pods that its controller sets."""

COMPLETION_TYPES: Final = ("Always", "Never")
FAILURE_TYPES: Final = ("FailFast", "Continue", "Pause")


def errors_of(
    doc: Mapping[str, Any], spec: BroadcastJobSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """Find all field errors of a document whose spec was parsed as `spec`. `old` is the stored document on an update.
    All fields may change. An unchanged spec is not checked again. Errors of pods that the stored template already has
    do not block changes of other fields: the controller itself sets `spec.paused`.
    """
    metadata = doc.get("metadata") or {}
    given: Mapping[str, Any] = doc.get("spec") or {}
    errors = list(find_metadata_errors(metadata))
    if old is None:
        errors = [*find_job_name_errors(metadata), *errors]
    errors += find_option_errors(metadata.get("annotations"), OPTIONS)
    errors += find_option_conflicts(metadata, spec)
    stored: Mapping[str, Any] = (old.get("spec") or {}) if old is not None else {}
    if old is not None and is_same(given, stored):
        return errors
    errors += find_policy_errors(spec, "spec")
    errors += find_template_rule_errors(given.get("template"), "spec.template", stored=stored.get("template"))
    if old is None:
        errors += _find_amount_errors(spec)
    return errors


def find_policy_errors(spec: BroadcastJobSpec, path: str) -> Iterator[Cause]:
    """Find errors of the completion policy: a job that never ends must have neither a deadline nor a time to live."""
    policy = spec.completion_policy
    if policy is None or policy.type != "Never":
        return
    for name, value in (
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
    ):
        if value is not None:
            why = f"{name} can just work with Always CompletionPolicyType"
            yield make_invalid_error(f"{path}.completionPolicy.{name}", value, why)


def find_template_rule_errors(
    template: Mapping[str, Any] | None, path: str, *, stored: Mapping[str, Any] | None = None
) -> Iterator[Cause]:
    """Find errors of a template at `path`, whose pods run to completion. `stored` is the stored template on an update:
    errors by Kubernetes' rules of pods are ignored if the stored template already has them.
    """
    if not template:
        yield make_required_error(path)
        return
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy not in ("Never", "OnFailure"):
        why = "pod restartPolicy can only be Never or OnFailure"
        yield make_invalid_error(f"{path}.spec.restartPolicy", policy or "", why)
    labels = labels_of(template)
    for name in OWNED_LABELS:
        if labels.get(name):
            yield make_invalid_error(
                f"{path}.metadata.labels",
                dict(labels),
                f"must not contain the label {name}: the controller sets it",
            )
    yield from drop_stored_errors(
        find_template_errors(template, path), lambda: find_template_errors(stored, path) if stored else ()
    )


def _find_amount_errors(spec: BroadcastJobSpec) -> Iterator[Cause]:
    completion, failure = spec.completion_policy, spec.failure_policy
    return find_broadcast_amount_errors(
        "spec",
        parallelism=spec.parallelism,
        deadline_s=completion.active_deadline_seconds if completion else None,
        ttl_s=completion.ttl_seconds_after_finished if completion else None,
        restart_limit=failure.restart_limit if failure else None,
    )


def warnings_of(spec: BroadcastJobSpec) -> Iterator[str]:
    """Warn about unknown types of the policies: the controller treats them as Always and Continue. OpenKruise does this
    too, but without a warning.
    """
    completion = spec.completion_policy.type if spec.completion_policy else ""
    if completion and completion not in COMPLETION_TYPES:
        yield f"spec.completionPolicy.type: the unknown type {completion!r} is treated as Always"
    failure = spec.failure_policy.type if spec.failure_policy else ""
    if failure and failure not in FAILURE_TYPES:
        yield f"spec.failurePolicy.type: the unknown type {failure!r} is treated as Continue"


def find_stored_errors(spec: BroadcastJobSpec) -> list[Cause]:
    """Find errors of a stored spec, except errors of its template."""
    return [*find_policy_errors(spec, "spec"), *_find_amount_errors(spec)]
