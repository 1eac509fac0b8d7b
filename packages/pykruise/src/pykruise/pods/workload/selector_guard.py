"""Selector guard: an owner must not act when spec.selector is not the selector with which its pods were created.

spec.selector + the owner's revisions and pods ──▶ check_selector() ──▶ Managed  : continue
                                                                   └─▶ Mismatch : keep all pods, report it
record_of() ──▶ the annotation that every new revision gets
is_guarded(), find_managed_selector() ──▶ the only selector to which admission allows a change

Pure; serves every kind that has pods and a selector. The webhook forbids changes of `spec.selector`, but a stored
selector can still change when no webhook is called (an outage, a restored etcd, a direct write). A controller that
followed the change would orphan all its pods and create a second set of pods. Each revision therefore records the
selector that the owner has when the revision is stored, so that the selector survives a restart. The selector in the
newest record is the managed selector.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

SELECTOR_MISMATCH: Final = "SelectorMismatch"
"""Type of the condition (status True while the guard blocks changes) and reason of the Warning event."""

SELECTOR_CHANGED: Final = "SelectorChanged"
"""Reason of the condition."""

LOOK_AGAIN_S: Final = 600.0
"""Seconds after which the owner is requeued, and its event recorded again, while the guard blocks changes."""


class Managed(msgspec.Struct, frozen=True, kw_only=True):
    """The stored selector is the managed selector."""

    unrecorded: RevisionView | None = None
    """The newest revision of an owner without any record; it must get the record."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The selector was changed without admission. Nothing may be created, deleted, changed or released."""

    managed: str
    """The recorded selector, canonical; empty if there is no record, and the owned objects do not match."""
    stored: str
    """The stored selector, canonical."""

    def format_message(self, kind: str) -> str:
        """Cause and remedy, for the condition and the event. `kind`: for example CloneSet."""
        managed = self.managed or "(not recorded; the pods or revisions that it owns do not match)"
        return (
            f"spec.selector is immutable: managed {managed}, found {self.stored}; no pod will be created, deleted "
            f"or updated until the managed selector is restored. Restore it; or delete the {kind} with its pods "
            f"and create it again; or, to keep the pods, delete it with --cascade=orphan, relabel them and create "
            f"it again."
        )

    @property
    def reason(self) -> Reason:
        """Reason for which a pod is not changed."""
        return Reason(
            Code.SELECTOR_CHANGED, "spec.selector differs from the selector with which its pods were created"
        )


def encode_selector(selector: Mapping[str, Any]) -> str:
    """Compact JSON that is equal for selectors with the same meaning: the order of keys, expressions and values is
    ignored, and absent equals empty.
    """
    labels = selector.get("matchLabels")
    expressions = [
        {
            "key": str(expression.get("key", "")),
            "operator": str(expression.get("operator", "")),
            "values": sorted({str(value) for value in expression.get("values") or ()}),
        }
        for expression in selector.get("matchExpressions") or ()
    ]
    expressions.sort(key=lambda expression: (expression["key"], expression["operator"], expression["values"]))
    result: Document = {}
    if expressions:
        result["matchExpressions"] = [
            {field: value for field, value in expression.items() if value} for expression in expressions
        ]
    if labels:
        result["matchLabels"] = dict(labels)
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def record_of(selector: Mapping[str, Any]) -> dict[str, str]:
    """Annotation of a revision that records the selector of its owner."""
    return {keys.MANAGED_SELECTOR_ANNOTATION: encode_selector(selector)}


def check_selector(
    selector: Mapping[str, Any], *, owned: Sequence[RevisionView], pods: Iterable[Mapping[str, str]]
) -> Managed | Mismatch:
    """Decide whether the owner may act under its stored `spec.selector`.

    `owned` are the revisions controlled by the owner (by uid). `pods` are the labels of its pods that do not terminate.
    Both were found without the selector. The newest record decides. Without a record (another manager created the
    revisions) every owned revision must match; without revisions at least one of the pods must match.
    """
    text = encode_selector(selector)
    recorded = [revision for revision in owned if revision.annotations.get(keys.MANAGED_SELECTOR_ANNOTATION)]
    if recorded:
        managed = max(recorded, key=_build_age_key).annotations[keys.MANAGED_SELECTOR_ANNOTATION]
        # Parsed and canonicalized again, so that a record that a person reformatted is recognized.
        is_same = managed == text or _canonicalize_record(managed) == text
        return Managed() if is_same else Mismatch(managed=managed, stored=text)
    try:
        matches = parse_selector(selector).matches
    except SelectorError:
        return Managed()  # nothing can be decided; the planner rejects an unreadable selector
    if owned:
        if all(matches(revision.labels) for revision in owned):
            return Managed(unrecorded=max(owned, key=_build_age_key))
        return Mismatch(managed="", stored=text)
    labels = list(pods)
    if labels and not any(matches(label) for label in labels):
        return Mismatch(managed="", stored=text)
    return Managed()


def is_guarded(conditions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a condition of the owner reports that the guard blocks changes."""
    return any(
        condition.get("type") == SELECTOR_MISMATCH and condition.get("status") == "True"
        for condition in conditions
    )


def find_managed_selector(owned: Iterable[RevisionView]) -> Document | None:
    """The selector in the newest record; None if there is no record, or the record cannot be read. `owned`: revisions
    controlled by the owner. Admission allows a change back to exactly this selector.
    """
    recorded = [revision for revision in owned if revision.annotations.get(keys.MANAGED_SELECTOR_ANNOTATION)]
    if not recorded:
        return None
    try:
        result = json.loads(max(recorded, key=_build_age_key).annotations[keys.MANAGED_SELECTOR_ANNOTATION])
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _build_age_key(revision: RevisionView) -> tuple[int, float, str]:
    return revision.number, revision.created_at or 0.0, revision.name


def _canonicalize_record(text: str) -> str:
    try:
        result = json.loads(text)
        return encode_selector(result)
    except (ValueError, AttributeError, TypeError):
        return text
