"""The template of a UnitedDeployment as a revision: what it means, and the text its name is made of.

spec.template ──▶ candidate_of() ──▶ Candidate        stored ControllerRevision ──▶ as_own() ──▶ RevisionView

Pure. The whole of the workload's template is kept: a change of its strategy is a new revision too. As with all
revisions (pods/revisions.py), templates are the same when they mean the same, and the bytes are those of a manager
written in Go.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    STATEFUL_SET,
    TEMPLATES,
)
from pykruise.kube.documents import Document
from pykruise.kube.go_text import go_json
from pykruise.pods.revisions import Candidate, RevisionView, meaning, typed_form

__all__ = ["as_own", "candidate_of"]

_ABSENT_WHEN_EMPTY: Final = frozenset({"minReadySeconds", "paused", "podManagementPolicy", "serviceName"})
"""Fields of a workload's spec that say nothing when they are 0, false or empty."""

_ALWAYS: Final[Mapping[str, Document]] = {
    STATEFUL_SET: {"serviceName": "", "updateStrategy": {}},
    ADVANCED_STATEFUL_SET: {"updateStrategy": {}, "volumeClaimUpdateStrategy": {}},
    CLONE_SET: {"scaleStrategy": {}, "updateStrategy": {}},
    DEPLOYMENT: {"strategy": {}},
}
"""What a typed Go client writes in any case."""


def candidate_of(template: Mapping[str, Any]) -> Candidate:
    """The revision that `spec.template` would be stored as."""
    plain = {name: value for name, value in template.items() if name != "$patch"}
    typed = {name: _typed(name, value) for name, value in plain.items() if value is not None}
    data = go_json({"spec": {"template": {**typed, "$patch": "replace"}}}, sort_keys=True).encode()
    return Candidate(template=plain, data=data, meaning=_meaning(plain))


def as_own(revision: RevisionView) -> RevisionView:
    """A stored revision of a UnitedDeployment, comparable with a candidate."""
    return msgspec.structs.replace(revision, meaning=_meaning(revision.template))


def _meaning(template: Mapping[str, Any]) -> bytes:
    plain = {name: _plain(value) for name, value in template.items() if isinstance(value, Mapping)}
    return meaning(plain)


def _typed(name: str, template: Mapping[str, Any]) -> Document:
    if name not in TEMPLATES:
        return dict(template)
    spec = _plain(template).get("spec") or {}
    found = {"selector": None, **_ALWAYS[name], **spec}
    found["template"] = typed_form(spec.get("template") or {})
    metadata = template.get("metadata") or {}
    return {"metadata": {"creationTimestamp": None, **_present(metadata)}, "spec": found}


def _plain(template: Mapping[str, Any]) -> Document:
    """Without fields of the workload's spec that say nothing."""
    given = template.get("spec")
    spec = {
        name: value
        for name, value in (given if isinstance(given, Mapping) else {}).items()
        if value is not None and (value or name not in _ABSENT_WHEN_EMPTY)
    }
    return {**template, "spec": spec}


def _present(metadata: Mapping[str, Any]) -> Document:
    return {name: value for name, value in metadata.items() if value}
