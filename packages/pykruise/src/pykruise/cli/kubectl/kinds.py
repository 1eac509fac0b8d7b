"""Pod templates and pod specs of a document, at the paths that its kind's shown.py names; the step of a Rollout.

a document ──▶ kinds.shown_of() ──▶ templates_of(), pod_specs_of()
a Rollout ──▶ list_step_marks()

Pure. Only shown.py of a kind is imported, so that a command starts fast.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds import shown_of
from pykruise.kube.documents import Document, get_path
from pykruise.plans.foreign import ROLLOUTS, current_step_of

__all__ = [
    "KRUISE",
    "ROLLOUTS",
    "current_step_of",
    "group_of",
    "list_step_marks",
    "pod_specs_of",
    "templates_of",
]

KRUISE: Final = "apps.kruise.io"


def group_of(document: Mapping[str, Any]) -> str:
    """API group of a document; empty for the core group."""
    return str(document.get("apiVersion", "")).rpartition("/")[0]


def templates_of(document: Document) -> list[Document]:
    """Pod templates in a document. They are not copies: a change of a template changes the document."""
    shown = shown_of(document)
    paths = shown.templates if shown is not None else ()
    templates = (get_path(document, *path.split(".")) for path in paths)
    return [template for template in templates if isinstance(template, dict)]


def pod_specs_of(document: Document) -> list[Document]:
    """Pod specs in a document: of a pod, of a SidecarSet, or of the pod templates. They are not copies."""
    shown = shown_of(document)
    if shown is not None and shown.pod_spec:
        own = get_path(document, *shown.pod_spec.split("."))
        return [own] if isinstance(own, dict) else []
    return [template["spec"] for template in templates_of(document) if isinstance(template.get("spec"), dict)]


def list_step_marks(document: Mapping[str, Any]) -> list[Any]:
    """Values of a Rollout that differ between two steps, and between the same step of two releases."""
    step = current_step_of(document)
    return [step.get(name) for name in _STEP_MARKS]


_STEP_MARKS: Final = ("canaryRevision", "updatedRevision", "currentStepIndex", "currentStepState")
