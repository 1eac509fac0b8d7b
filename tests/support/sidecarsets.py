"""SidecarSets and pods for tests, as documents and as views."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykruise.kinds.sidecarset.admission_facts import SidecarSetFacts
from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.injection import InjectionSurroundings, inject
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.validation import errors_of
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset, read_spec
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, deep_copy, encode
from pykruise.kube.errors import Cause
from pykruise.pods.workload.revisions import RevisionView

NOW = parse_time("2026-01-31T12:00:00Z")


def container(name: str, image: str = "", **fields: Any) -> Document:
    """A sidecar."""
    return {"name": name, "image": image or f"{name}:1", **fields}


def hot(name: str, image: str = "", *, empty: str = "empty:1", **fields: Any) -> Document:
    """A sidecar with the upgrade type HotUpgrade."""
    strategy = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": empty}
    return container(name, image, upgradeStrategy=strategy, **fields)


def sidecarset(name: str = "log", *containers: Document, **spec: Any) -> Document:
    """A SidecarSet for pods with app=web; further fields of the spec as keywords."""
    metadata = spec.pop("metadata", {})
    return {
        "apiVersion": SIDECAR_SETS.api_version,
        "kind": SIDECAR_SETS.kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": list(containers),
            **spec,
        },
    }


def canary(name: str, *containers: Document, base: str, **spec: Any) -> Document:
    """A canary of `base`."""
    annotations = {
        "apps.kruise.io/sidecarset-canary": "true",
        "apps.kruise.io/sidecarset-base": base,
    }
    given = {"updateStrategy": {"type": "NotUpdate"}, **spec}
    return sidecarset(name, *containers, metadata={"annotations": annotations}, **given)


def problems(
    doc: Document, *others: SidecarSetView, old: Document | None = None, **facts: Any
) -> list[Cause]:
    """Errors of a document, with other existing SidecarSets."""
    spec, problem = read_spec(doc.get("spec") or {})
    assert spec is not None, problem
    return errors_of(doc, spec, facts=SidecarSetFacts(others=others, **facts), old=old)


def view(doc: Document, *, version: int = 1, generation: int = 1, is_admitted: bool = True) -> SidecarSetView:
    """The view of a SidecarSet, with or without the defaults of admission."""
    stored = add_defaults(doc) if is_admitted else doc
    metadata = {
        "uid": f"uid-{stored['metadata']['name']}",
        "resourceVersion": str(version),
        "generation": generation,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **stored["metadata"],
    }
    return project_sidecarset(encode({**stored, "metadata": metadata}))


def pod(*containers: Document, name: str = "web-1", **spec: Any) -> Document:
    """A pod with app=web in the namespace shop."""
    metadata = spec.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}, **metadata},
        "spec": {"containers": list(containers) or [{"name": "main", "image": "web:1"}], **spec},
    }


def injected(
    doc: Document,
    *sets: Document,
    namespace_labels: Mapping[str, str] | None = None,
    revisions: Mapping[str, Sequence[RevisionView]] | None = None,
    seed: int = 1,
    sort_by_name: bool = False,
) -> Document | None:
    """The pod after injection; fails if the input was changed."""
    before = deep_copy(doc)
    result = inject(
        doc,
        InjectionSurroundings(
            sets=[view(entry) for entry in sets],
            namespace="shop",
            namespace_labels=namespace_labels,
            revisions=revisions or {},
            now=NOW,
            seed=seed,
            sort_by_name=sort_by_name,
        ),
    )
    assert doc == before
    return result


def names(doc: Document, field: str = "containers") -> list[str]:
    """Names of a pod's containers."""
    return [item["name"] for item in doc["spec"].get(field) or ()]


def by_name(doc: Document, name: str) -> Document:
    """A container or init container of a pod."""
    spec = doc["spec"]
    result: Document = next(
        container
        for container in [*spec["containers"], *(spec.get("initContainers") or [])]
        if container["name"] == name
    )
    return result


def variables(container: Document) -> dict[str, Any]:
    """The environment of a container: name → value, or the source of the value."""
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom"))
        for variable in container.get("env") or ()
    }
