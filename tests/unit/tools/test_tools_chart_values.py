"""The chart describes its valid values, and reports missing values."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pykruise.kinds.gates import list_all_gates
from support.charts import ChartRefusalError, render
from support.yaml_documents import yaml_document
from tools.chart_values import RULES, UNUSED, render_chart_files, values_of

CHART = Path(__file__).parents[3] / "charts" / "pykruise"
VALUES = values_of((CHART / "values.yaml").read_text())
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))


def test_the_generated_files_are_those_in_the_chart() -> None:
    """Run `python -m tools.chart_values charts/pykruise` to update the files."""
    for name, text in render_chart_files(CHART).items():
        assert (CHART / name).read_text() == text, f"generate {name} again"


def test_rules_apply_to_existing_values() -> None:
    paths = {value.path for value in VALUES}
    assert set(RULES) <= paths
    assert not set(UNUSED) & paths


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_every_value_is_used_by_a_template(value: Any) -> None:
    path = value.path
    parts = path.split(".")
    if parts[-2:-1] == ["image"]:  # the helper uses it for each program
        path = parts[-1]
    assert re.search(rf"\b{re.escape(path)}\b", TEMPLATES), value.path


def test_every_gate_may_be_set_and_no_other() -> None:
    pattern = RULES["featureGates"]["pattern"]
    assert re.search(pattern, ",".join(f"{name}=true" for name in list_all_gates()))
    assert re.search(pattern, "")
    for wrong in ("Foo=true", "WorkloadSpread", "WorkloadSpread=yes", "WorkloadSpread=true,"):
        assert not re.search(pattern, wrong)


@pytest.mark.parametrize("program", ["manager", "daemon", "dashboard"])
def test_a_chart_without_a_registry_is_refused_with_the_missing_value(program: str) -> None:
    others = {
        name: {"image": {"repository": f"r.example/{name}"}}
        for name in ("manager", "daemon", "dashboard")
        if name != program
    }
    others.setdefault("dashboard", {})["enabled"] = True
    with pytest.raises(ChartRefusalError, match=rf"set image\.registry=.*{program}\.image\.repository"):
        render(CHART, image={"registry": ""}, **others)


def test_the_registry_is_that_of_all_images_but_of_those_that_name_their_own() -> None:
    documents = render(
        CHART,
        image={"registry": "r.example/team"},
        daemon={"image": {"repository": "other.example/agent", "tag": "x"}},
        dashboard={"enabled": True},
    )
    text = json.dumps(documents)
    version = yaml_document((CHART / "Chart.yaml").read_text())["appVersion"]
    assert set(re.findall(r'"image": "([^"]*)"', text)) == {
        f"r.example/team/kruise-manager:v{version}",
        "other.example/agent:x",
        f"r.example/team/kruise-dashboard:v{version}",
    }


def test_pods_take_annotations_a_priority_and_how_they_are_spread() -> None:
    spread = [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]
    programs = ("manager", "daemon", "dashboard")
    values: dict[str, Any] = {
        name: {"podAnnotations": {"a": name}, "priorityClassName": f"of-{name}"} for name in programs
    }
    values["manager"]["topologySpreadConstraints"] = spread
    values["dashboard"]["enabled"] = True
    pods = {
        doc["metadata"]["name"]: doc["spec"]["template"]
        for doc in render(CHART, **values)
        if doc["kind"] in ("Deployment", "DaemonSet")
    }
    assert len(pods) == 3
    assert {pod["metadata"]["annotations"]["a"] for pod in pods.values()} == set(programs)
    assert {pod["spec"]["priorityClassName"] for pod in pods.values()} == {f"of-{name}" for name in programs}
    assert pods["kruise-controller-manager"]["spec"]["topologySpreadConstraints"] == spread
