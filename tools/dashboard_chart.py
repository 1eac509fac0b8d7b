"""The permissions of the dashboard in a cluster, and the part of the Helm chart that is generated from them.

rights_of_dashboard() ──▶ build_roles() ──▶ charts/pykruise/templates/dashboard-rbac.yaml
    python -m tools.dashboard_chart charts/pykruise

The dashboard reads the objects that it shows, and asks the API server about users. It writes nothing and reads no
Secrets: it sends actions with the user's own token. A test compares the file with the generated text.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykruise.dashboard.objects import list_watched_resources
from pykruise.kube.documents import Document
from pykruise.kube.rbac import READ, Right, make_right, merge_rights
from pykruise.kube.resources import EVENTS, HORIZONTAL_POD_AUTOSCALERS, POD_DISRUPTION_BUDGETS, Resource
from pykruise.manager.argocd import format_document

__all__ = ["build_roles", "render_chart_file", "rights_of_dashboard"]

ACCOUNT: Final = "kruise-dashboard"
RBAC: Final = "rbac.authorization.k8s.io"
_NAMESPACE: Final = "namespace-of-the-chart"
_FILE: Final = "dashboard-rbac.yaml"

_TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False
)


def rights_of_dashboard() -> Sequence[Right]:
    """Permissions of the dashboard's service account in the whole cluster."""
    return (
        *(make_right(resource, *READ, why="the pages") for resource in list_watched_resources()),
        make_right(EVENTS, "get", "list", why="events on a page"),
        make_right(POD_DISRUPTION_BUDGETS, "get", "list", why="explain"),
        make_right(HORIZONTAL_POD_AUTOSCALERS, "get", "list", why="explain"),
        make_right(_TOKEN_REVIEWS, "create", why="who logs in; nothing is stored"),
        make_right(_ACCESS_REVIEWS, "create", why="what they may see; nothing is stored"),
    )


def build_roles(*, namespace: str) -> list[Document]:
    """Return the account, the role and the binding."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": namespace},
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "kruise-dashboard-role"},
            "rules": merge_rights(rights_of_dashboard()),
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kruise-dashboard-rolebinding"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "kruise-dashboard-role"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    ]


def render_chart_file() -> str:
    """Return the text of the chart's template."""
    head = "{{- /* Generated: python -m tools.dashboard_chart charts/pykruise. Do not edit. */}}\n"
    text = "".join(f"---\n{format_document(role)}" for role in build_roles(namespace=_NAMESPACE))
    text = text.replace(_NAMESPACE, "{{ .Values.installation.namespace }}")
    return f"{head}{{{{- if .Values.dashboard.enabled }}}}\n{text}{{{{- end }}}}\n"


def main(argv: Sequence[str]) -> int:
    """Write the generated file into the chart's folder."""
    (Path(argv[0]) / "templates" / _FILE).write_text(render_chart_file(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
