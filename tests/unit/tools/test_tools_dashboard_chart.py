"""The dashboard in the chart: off by default. It may only read, and create reviews of tokens and permissions."""

from pathlib import Path
from typing import Any

import pytest

from pykruise.dashboard.command import dashboard
from pykruise.dashboard.objects import list_watched_resources
from support.charts import render
from tools.dashboard_chart import render_chart_file, rights_of_dashboard

CHART = Path(__file__).parents[3] / "charts" / "pykruise"


def parts(**values: Any) -> dict[str, Any]:
    parts = render(CHART, dashboard={"enabled": True, **values})
    return {doc["kind"]: doc for doc in parts if "dashboard" in doc["metadata"]["name"]}


def test_the_generated_file_is_the_one_in_the_chart() -> None:
    """Run `python -m tools.dashboard_chart charts/pykruise` to update the file."""
    assert (CHART / "templates" / "dashboard-rbac.yaml").read_text("utf-8") == render_chart_file()


def test_the_dashboard_is_disabled_by_default() -> None:
    assert not [doc for doc in render(CHART) if "kruise-dashboard" in doc["metadata"]["name"]]


def test_the_dashboard_has_no_right_to_write_and_none_to_secrets() -> None:
    for right in rights_of_dashboard():
        assert right.resource not in ("secrets", "configmaps")
        if set(right.verbs) - {"get", "list", "watch"}:
            assert (right.resource, right.verbs) in (
                ("tokenreviews", ("create",)),
                ("subjectaccessreviews", ("create",)),
            )


def test_the_chart_allows_reading_all_watched_resources() -> None:
    rules = parts()["ClusterRole"]["rules"]
    allowed = {
        (group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]
    }
    assert {(resource.group, resource.plural) for resource in list_watched_resources()} <= allowed


@pytest.mark.parametrize(
    "values",
    [{}, {"actions": True, "allowedHosts": ["kruise.example"], "basePath": "/kruise", "tlsSecret": "page"}],
    ids=["usual", "everything"],
)
def test_the_arguments_of_the_dashboard_are_accepted_by_its_command(values: dict[str, Any]) -> None:
    takes = parts(**values)
    container = takes["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][0] == "dashboard"
    given = dashboard.make_context("dashboard", container["args"][1:]).params
    assert given["shared"] is True
    assert given["actions"] is bool(values)
    assert given["base_path"] == values.get("basePath", "")
    assert container["readinessProbe"]["httpGet"]["path"] == f"{values.get('basePath', '')}/healthz"


def test_the_dashboard_runs_without_privileges_on_its_node() -> None:
    pod = parts()["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
