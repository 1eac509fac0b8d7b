"""`pykruise simulate --kubernetes`: pods may have the fields that the API server of this minor version accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pykruise.cli.main import app

RULES = {
    "restartPolicy": "Never",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
}
COMPARES = {"tolerations": [{"key": "load", "operator": "Lt", "value": "5", "effect": "NoSchedule"}]}


def cloneset(
    *, container: dict[str, Any] | None = None, image: str = "nginx:1", **spec: Any
) -> dict[str, Any]:
    main = {"name": "main", "image": image, **(container or {})}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [main], **spec}},
        },
    }


def simulated(path: Path, now: dict[str, Any], later: dict[str, Any], *args: str) -> Result:
    (path / "now.yaml").write_text(yaml.safe_dump(now), "utf-8")
    (path / "later.yaml").write_text(yaml.safe_dump(later), "utf-8")
    files = ["-f", str(path / "now.yaml"), "--change", str(path / "later.yaml")]
    return CliRunner().invoke(app, ["simulate", *files, "-o", "json", *args])


@pytest.mark.parametrize(("minor", "code"), [("1.37", 0), ("1.35", 0), ("1.33", 3), ("1.28", 3)])
def test_container_restart_rules_are_accepted_in_minors_that_have_them(
    tmp_path: Path, minor: str, code: int
) -> None:
    result = simulated(
        tmp_path, cloneset(), cloneset(container=RULES, image="nginx:2"), "--kubernetes", minor
    )
    assert result.exit_code == code, result.output
    assert ("may not be set for non-init containers" in result.output) is (code == 3)


def test_a_toleration_that_compares_numbers_needs_a_feature_that_no_minor_has_on(tmp_path: Path) -> None:
    """An API server of 1.37 rejects such a pod too, unless the gate TaintTolerationComparisonOperators is on."""
    result = simulated(tmp_path, cloneset(), cloneset(**COMPARES))
    assert result.exit_code == 3
    assert "tolerations[0].operator" in result.output


@pytest.mark.parametrize(
    ("minor", "of_pod", "recreated"),
    [
        ("1.37", False, False),
        ("1.35", False, False),
        ("1.34", False, True),
        ("1.36", True, False),
        ("1.35", True, True),
    ],
)
def test_a_simulation_resizes_what_the_minor_can_resize(
    tmp_path: Path, minor: str, of_pod: bool, recreated: bool
) -> None:
    def sized(cpu: str) -> dict[str, Any]:
        resources = {"resources": {"requests": {"cpu": cpu}}}
        return cloneset(**resources) if of_pod else cloneset(container=resources)

    result = simulated(tmp_path, sized("100m"), sized("200m"), "--kubernetes", minor)
    assert result.exit_code == 0, result.output
    did = {action["do"] for played in json.loads(result.output) for action in played["actions"]}
    assert did == ({"create", "delete"} if recreated else {"update in place"})


def test_an_unknown_minor_is_reported_in_one_line(tmp_path: Path) -> None:
    result = simulated(tmp_path, cloneset(), cloneset(image="nginx:2"), "--kubernetes", "1.12")
    assert result.exit_code == 2
    assert "1.12" in result.output
