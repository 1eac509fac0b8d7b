"""Documents that scenarios of several kinds begin with."""

from typing import Any

from recorded_original.language import Document, Patch, Scenario, Step, Wanted

__all__ = [
    "BOTH",
    "CLAIM",
    "KRUISE",
    "POLICY",
    "build_difference",
    "build_scenario",
    "image_of",
    "pods",
    "rolling",
    "set_image",
    "workload",
]

KRUISE = "apps.kruise.io/v1beta1"
POLICY = "policy.kruise.io/v1beta1"
"""The player replaces the version in a document by the version that it plays."""

BOTH = ("v1beta1", "v1alpha1")
"""API versions of a scenario whose documents are valid in both."""

CLAIM: Document = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
"""A claim template."""


def build_scenario(name: str, *steps: Step, differs: tuple[Wanted, ...] = (), **more: Any) -> Scenario:
    """A scenario."""
    return Scenario(name=name, steps=steps, differs=differs, **more)


def build_difference(why: str, *at: str, is_wrong: bool = False, only_in: str = "") -> Wanted:
    """A difference at these places. `only_in`: the API version in which alone it exists; empty: both versions."""
    return Wanted(at=at, why=why, is_wrong=is_wrong, versions=(only_in,) if only_in else BOTH)


def pods(app: str, *, image: str = "nginx:1", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A pod template with one container."""
    return {
        "metadata": {"labels": {"app": app, **(labels or {})}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def workload(kind: str, name: str = "web", *, api: str = KRUISE, **spec: Any) -> Document:
    """A workload whose pods have the label `app: <name>`."""
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pods(name), **spec},
    }


def rolling(**fields: Any) -> Document:
    """An update strategy."""
    return {"type": "RollingUpdate", "rollingUpdate": fields}


def image_of(image: str) -> Document:
    """A change of a workload's template."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def set_image(kind: str, image: str = "nginx:2", name: str = "web") -> Patch:
    """Change the image of a workload's template."""
    return Patch(kind, name, image_of(image))
