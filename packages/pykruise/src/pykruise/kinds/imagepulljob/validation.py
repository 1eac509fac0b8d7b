"""Validation of an ImagePullJob (either version): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors

Pure. An unchanged spec is not checked again, so the metadata of a stored job can always be changed.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_forbidden_error
from pykruise.plans.stored_values import to_document
from pykruise.pods.images.api import ImagePullJobSpec
from pykruise.pods.images.pull_rules import find_image_errors, pull_errors
from pykruise.pods.workload.validation import find_metadata_errors


def errors_of(
    doc: Mapping[str, Any], spec: ImagePullJobSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """Find all field errors of a document whose typed spec is `spec`. `old` is the stored document on an update."""
    errors = [*find_metadata_errors(doc.get("metadata") or {})]
    given: Mapping[str, Any] = doc.get("spec") or {}
    before: Mapping[str, Any] | None = (old.get("spec") or {}) if old is not None else None
    if is_same(given, before):
        return errors
    if before is not None and list(before.get("pullSecrets") or ()) != list(spec.pull_secrets or ()):
        errors.append(make_forbidden_error("spec.pullSecrets", "cannot be changed"))
    errors += pull_errors(spec, given)
    errors += find_image_errors(spec.image, "spec.image")
    return errors


def find_stored_errors(spec: ImagePullJobSpec) -> list[Cause]:
    """Find all field errors of a stored spec."""
    return errors_of(to_document(spec), spec)
