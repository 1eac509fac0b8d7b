"""`pykruise simulate` of a UnitedDeployment: zones lose their nodes and get them back."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pykruise.cli.main import app
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET, STATEFUL_SET
from support.scenario import Object
from support.uniteddeployments import ALL_TEMPLATES, united_document

ZONE = "example.com/zone"


def subset(name: str, **fields: Any) -> Object:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]}
    return {"name": name, "nodeSelectorTerm": term, **fields}


def adaptive(kind: str = CLONE_SET, **more: Any) -> Object:
    times = {"rescheduleCriticalSeconds": 10, "unschedulableDuration": 60, **more}
    topology = {
        "subsets": [subset("a", maxReplicas=3), subset("b")],
        "scheduleStrategy": {"type": "Adaptive", "adaptive": times},
    }
    return united_document(kind, [], replicas=3, topology=topology)


def written(path: Path, *documents: Object) -> str:
    path.write_text(yaml.safe_dump_all(documents), "utf-8")
    return str(path)


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["simulate", *arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("kind", ALL_TEMPLATES)
def test_pods_of_a_failed_zone_move_to_another_subset(tmp_path: Path, kind: str) -> None:
    output = run("-f", written(tmp_path / "ud.yaml", adaptive(kind)), "--outage", "a@20s")
    assert "the nodes of a failed: node-1, node-3" in output
    assert "subsets             a 0, b 3" in output
    assert "ud.yaml: complete after" in output
    assert "node-1, node-3 for subset a; node-2 for subset b" in output


def test_pods_that_moved_on_stay_when_the_zone_is_back(tmp_path: Path) -> None:
    output = run("-f", written(tmp_path / "ud.yaml", adaptive()), "--outage", "a@20s..2m")
    assert "the nodes of a have recovered" in output
    assert "subsets             a 0, b 3" in output


def test_pods_in_reserve_work_again_when_the_zone_is_back(tmp_path: Path) -> None:
    first = adaptive(reserveUnschedulablePods=True)
    output = run("-f", written(tmp_path / "ud.yaml", first), "--outage", "a@20s..2m")
    assert "subsets             a 3, b 0" in output
    assert "complete after" in output


def test_a_zone_failure_without_the_adaptive_strategy_is_reported_as_stuck(tmp_path: Path) -> None:
    first = united_document(STATEFUL_SET, [subset("a"), subset("b")], replicas=4)
    output = run("-f", written(tmp_path / "ud.yaml", first), "--outage", "a@20s", code=3)
    assert "ud.yaml: stuck after" in output
    assert "Unschedulable" in output
    assert "(subset a)" in output


def test_a_rollout_is_played_through_all_subsets(tmp_path: Path) -> None:
    first, second = (united_document(CLONE_SET, [subset("a"), subset("b")], replicas=4) for _ in range(2))
    inner = second["spec"]["template"][CLONE_SET]["spec"]["template"]["spec"]
    inner["containers"][0]["image"] = "nginx:2"
    output = run(
        "-f", written(tmp_path / "ud.yaml", first), "--change", written(tmp_path / "new.yaml", second)
    )
    assert "new.yaml: complete after" in output
    assert "4 created, 4 deleted" in output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("c@1s", "no subset is named 'c'"),
        ("a", "expected a subset and a time"),
        ("a@5s..1s", "must not be less"),
    ],
)
def test_a_wrong_outage_is_refused(tmp_path: Path, text: str, why: str) -> None:
    done = CliRunner().invoke(
        app, ["simulate", "-f", written(tmp_path / "ud.yaml", adaptive()), "--outage", text]
    )
    assert done.exit_code == 1
    assert why in done.output
