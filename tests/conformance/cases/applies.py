"""Server-side apply: who owns which field, conflicts and force."""

from typing import Any

from conformance.builders import config_map, container, crd, deployment, template
from conformance.dsl import APPLY, MERGE, apply, case, define, get, patch, raw


def _map(**data: str) -> dict[str, Any]:
    return config_map("a", **data)


CASES = [
    case(
        "an apply creates and owns what it sets",
        apply("configmaps/a", _map(x="1", y="2")),
        apply("configmaps/a", _map(x="1", y="2")),
        apply("configmaps/a", _map(x="3")),
        get("configmaps/a"),
    ),
    case(
        "another manager's field is a conflict unless it is forced",
        apply("configmaps/a", _map(x="1")),
        apply("configmaps/a", _map(x="1"), manager="other"),
        apply("configmaps/a", _map(x="2"), manager="other"),
        apply("configmaps/a", _map(x="2"), manager="other", force=True),
        apply("configmaps/a", _map(), manager="other"),
        patch("configmaps/a", {"data": {"z": "9"}}, MERGE),
        apply("configmaps/a", _map(z="1")),
    ),
    case(
        "an apply merges lists by their keys",
        apply("deployments/web", deployment(template=template("web", container("a", "a:1")))),
        apply(
            "deployments/web",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:1"}]}}},
            },
            manager="other",
        ),
        apply("deployments/web", deployment(template=template("web", container("a", "a:2")))),
    ),
    case(
        "an apply must name its manager and its kind",
        raw("PATCH", "configmaps/a", _map(), headers={"content-type": APPLY}),
        apply("configmaps/a", {"metadata": {"name": "a"}}),
        apply("configmaps/a", {**_map(), "metadata": {"name": "b"}}),
        apply("configmaps/a", {**_map(), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}),
        apply("configmaps/a", _map(x="1"), dryRun="All"),
        get("configmaps/a"),
        apply("configmaps/a", {**_map(), "unknown": 1}),
    ),
    case(
        "an apply of a custom resource",
        define(crd()),
        apply(
            "widgets@v1/a",
            {
                "apiVersion": "$ns.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a"},
                "spec": {"x": 1},
            },
        ),
        apply(
            "widgets@v1/a",
            {
                "apiVersion": "$ns.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a"},
                "spec": {"x": 2},
            },
            manager="other",
        ),
    ),
]
