"""A namespace's life, from its first moment to its last finalizer."""

from conformance.builders import config_map
from conformance.dsl import MERGE, based_on, case, create, delete, get, patch, raw


def _finalize(step: int, *finalizers: str) -> object:
    return raw(
        "PUT",
        "namespaces/$ns/finalize",
        based_on(step, {"metadata": {"resourceVersion": None}, "spec": {"finalizers": list(finalizers)}}),
    )


CASES = [
    case(
        "a namespace has a finalizer, a phase and a label of its name",
        get("namespaces/$ns"),
        create(
            "namespaces",
            {"metadata": {"name": "$ns-2", "labels": {"a": "b"}}, "spec": {"finalizers": ["x.io/mine"]}},
        ),
        patch("namespaces/$ns-2", {"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}),
        patch("namespaces/$ns-2", {"metadata": {"labels": None}}, MERGE),
        patch("namespaces/$ns-2", {"spec": {"finalizers": []}}, MERGE),
        create("namespaces", {"metadata": {"name": "$ns-2"}}),
        create("namespaces", {"metadata": {"generateName": "$ns-"}}),
    ),
    case(
        "a namespace that ends takes nothing new and goes with its last finalizer",
        create("configmaps", config_map("a")),
        delete("namespaces/$ns"),
        get("namespaces/$ns"),
        delete("namespaces/$ns"),
        create("configmaps", config_map("b")),
        patch("configmaps/a", {"data": {"x": "1"}}),
        delete("configmaps/a"),
        _finalize(3),
        get("namespaces/$ns"),
    ),
    case(
        "a namespace with a finalizer of its metadata waits for that too",
        patch("namespaces/$ns", {"metadata": {"finalizers": ["x.io/a"]}}, MERGE),
        delete("namespaces/$ns"),
        _finalize(2),
        get("namespaces/$ns"),
        patch("namespaces/$ns", {"metadata": {"finalizers": None}}, MERGE),
        get("namespaces/$ns"),
    ),
    case(
        "the namespaces every cluster has cannot be deleted",
        delete("namespaces/default"),
        delete("namespaces/kube-system"),
        delete("namespaces/kube-public"),
        get("namespaces/kube-node-lease", only=("spec", "status", "metadata.labels")),
    ),
    case(
        "a namespace's status is written by its endpoint",
        patch("namespaces/$ns/status", {"status": {"conditions": [{"type": "X", "status": "True"}]}}),
        patch("namespaces/$ns", {"status": {"phase": "Terminating"}}, MERGE),
        get("namespaces/$ns"),
        get(
            "namespaces",
            fieldSelector="status.phase=Active,metadata.name=$ns",
            only=("items.0.metadata.name",),
        ),
    ),
]
