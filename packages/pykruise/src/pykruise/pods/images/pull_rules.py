"""Common rules of jobs that pull images: their admission and their quantities.

spec ──▶ add_pull_defaults() ──▶ the spec as stored        typed spec ──▶ pull_errors() ──▶ field errors
spec.parallelism ──▶ parallelism_of() ──▶ number of nodes that pull at the same time

Pure. Same rules as OpenKruise, but all errors are reported together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.values.image_references import parse_image
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.images.api import PullSpec

TIMEOUT_S: Final = 600
BACKOFF_LIMIT: Final = 3
COMPLETION_TYPES: Final = ("Always", "Never")

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def add_pull_defaults(spec: Mapping[str, Any], *, pull_policy: bool) -> Document:
    """Return the spec with defaults. `pull_policy`: whether imagePullPolicy has a default, too."""
    completion = dict(spec.get("completionPolicy") or {})
    completion["type"] = completion.get("type") or "Always"
    policy = {name: value for name, value in (spec.get("pullPolicy") or {}).items() if value is not None}
    policy.setdefault("timeoutSeconds", TIMEOUT_S)
    policy.setdefault("backoffLimit", BACKOFF_LIMIT)
    defaults = {**spec, "completionPolicy": completion, "pullPolicy": policy}
    if pull_policy:
        defaults["imagePullPolicy"] = spec.get("imagePullPolicy") or "IfNotPresent"
    return defaults


def parallelism_of(value: int | str | None) -> int:
    """Number of nodes that may pull at the same time; 1 by default. Raises ValueError unless a whole number ≥ 0."""
    if value is None:
        return 1
    if isinstance(value, str):
        if value.endswith("%"):
            raise ValueError("must be a number: percentages are not accepted")
        if not _WHOLE.fullmatch(value) or abs(int(value)) > 2**31 - 1:
            raise ValueError("must be a whole number")
    if int(value) < 0:
        raise ValueError("must not be negative")
    return int(value)


def find_image_errors(image: str, path: str) -> Iterator[Cause]:
    """Errors of an image reference that is missing or cannot be parsed."""
    if not image:
        yield make_required_error(path)
        return
    try:
        parse_image(image)
    except ValueError as error:
        yield make_invalid_error(path, image, str(error))


def pull_errors(spec: PullSpec, given: Mapping[str, Any]) -> Iterator[Cause]:
    """Errors of the spec, which was read from `given`, except those of its images."""
    yield from _find_selector_errors(spec, given)
    try:
        parallelism_of(spec.parallelism)
    except ValueError as error:
        yield make_invalid_error("spec.parallelism", spec.parallelism, str(error))
    yield from _find_completion_errors(spec)


def _find_selector_errors(spec: PullSpec, given: Mapping[str, Any]) -> Iterator[Cause]:
    chosen = spec.selector
    if chosen is not None:
        path = "spec.selector"
        has_labels = bool(chosen.match_labels or chosen.match_expressions)
        if chosen.names and has_labels:
            yield make_invalid_error(
                path,
                given.get("selector"),
                "names cannot be set together with matchLabels or matchExpressions",
            )
        yield from _find_label_errors(chosen.match_labels, chosen.match_expressions, path)
        for number, name in _find_repeated(chosen.names or ()):
            yield make_duplicate_error(f"{path}.names[{number}]", name)
    pods = spec.pod_selector
    if pods is not None:
        if chosen is not None:
            yield make_forbidden_error("spec.podSelector", "cannot be set together with selector")
        yield from _find_label_errors(pods.match_labels, pods.match_expressions, "spec.podSelector")


def _find_label_errors(labels: Any, expressions: Any, path: str) -> Iterator[Cause]:
    document = {"matchLabels": labels, "matchExpressions": msgspec.to_builtins(expressions)}
    try:
        parse_selector(document)
    except SelectorError as error:
        yield make_invalid_error(path, {name: value for name, value in document.items() if value}, str(error))


def _find_repeated(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield number, name
        seen.add(name)


def _find_completion_errors(spec: PullSpec) -> Iterator[Cause]:
    policy, path = spec.completion_policy, "spec.completionPolicy"
    deadline_s, ttl_s = policy.active_deadline_seconds, policy.ttl_seconds_after_finished
    if policy.type not in ("", *COMPLETION_TYPES):
        yield make_not_supported_error(f"{path}.type", policy.type, COMPLETION_TYPES)
    elif policy.type == "Never":
        for name, value in (("activeDeadlineSeconds", deadline_s), ("ttlSecondsAfterFinished", ttl_s)):
            if value is not None:
                yield make_invalid_error(
                    f"{path}.{name}", value, "can only be set with completion policy Always"
                )
    elif deadline_s is not None:
        timeout_s = spec.pull_policy.timeout_seconds if spec.pull_policy else None
        least = TIMEOUT_S if timeout_s is None else timeout_s
        if deadline_s < least:
            why = f"must not be less than pullPolicy.timeoutSeconds ({least})"
            yield make_invalid_error(f"{path}.activeDeadlineSeconds", deadline_s, why)
