"""`pykruise simulate` of a workload with a WorkloadSpread: admission assigns pods to subsets."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pykruise.cli.insight.charts import draw_svg_chart
from pykruise.cli.insight.simulating import Play, PlayWorld, nodes_of_subsets, play, read_nodes
from pykruise.cli.main import app
from pykruise.cli.simulate_report import report
from support.golden import same_as
from support.scenario import Object, cloneset
from support.statefulsets import statefulset

ZONE = "example.com/zone"


def subset(name: str, most: int | None = None, **fields: Any) -> Object:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]}
    return {
        "name": name,
        "requiredNodeSelector": term,
        **({"maxReplicas": most} if most is not None else {}),
        **fields,
    }


def spread(*subsets: Object, kind: str = "CloneSet", **spec: Any) -> Object:
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "name": "web"}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "WorkloadSpread",
        "metadata": {"name": "ws"},
        "spec": {"targetRef": target, "subsets": list(subsets), **spec},
    }


def node(name: str, zone: str, pods: int = 110) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": str(pods)}},
    }


def written(path: Path, *documents: Object) -> str:
    path.write_text(yaml.safe_dump_all(documents), "utf-8")
    return str(path)


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["simulate", *arguments])
    return done.exit_code, done.output


def test_new_pods_are_created_in_the_subset_with_capacity() -> None:
    # given two pods in the two slots of subset a
    beside = [spread(subset("a", 2), subset("b"))]
    nodes, _ = nodes_of_subsets(beside, 4)
    # when it is scaled to five
    played = play(
        Play(
            first=cloneset(replicas=2),
            change=cloneset(replicas=5),
            beside=beside,
            world=PlayWorld(nodes=nodes),
        )
    )
    # then
    assert [(action.do, action.subset) for action in played.actions] == [("create", "b")] * 3
    assert played.samples[-1].subsets == {"a": 2, "b": 3}
    assert 'stroke-dasharray="4 2"' in draw_svg_chart("new.yaml", played)


@pytest.mark.parametrize("parallel", [False, True])
def test_pods_of_a_statefulset_get_subsets_too(parallel: bool) -> None:
    # given two pods in the two slots of subset a
    beside = [spread(subset("a", 2), subset("b"), kind="StatefulSet")]
    nodes, _ = nodes_of_subsets(beside, 4)
    # when it is scaled to five, with a new image
    first = statefulset(replicas=2, parallel=parallel)
    change = statefulset(replicas=5, image="nginx:2", parallel=parallel)
    played = play(Play(first=first, change=change, beside=beside, world=PlayWorld(nodes=nodes)))
    # then
    assert played.samples[-1].subsets == {"a": 2, "b": 3}
    assert played.samples[-1].revisions == {played.target: 5}
    assert played.end is not None
    assert played.end.verdict == "done"


def test_a_subset_without_a_node_is_what_it_waits_for() -> None:
    # given a Fixed spread over a zone without nodes
    beside = [spread(subset("a", 2), subset("b"))]
    # when
    played = play(
        Play(
            change=cloneset(replicas=3), beside=beside, world=PlayWorld(nodes=read_nodes([node("one", "b")]))
        )
    )
    # then
    assert played.end is not None
    assert (played.end.verdict, played.end.cause) == ("waiting", "Unschedulable")
    assert report("app.yaml", played)[0].startswith("app.yaml: stuck after ")


def test_pods_that_find_no_node_move_on_to_the_next_subset() -> None:
    # given a zone with one node that takes one pod, and a spread that closes a full zone's subset after a minute
    nodes = read_nodes([node("small", "a", pods=1), node("large", "b")])
    beside = [
        spread(
            subset("a", 3),
            subset("b"),
            scheduleStrategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 60}},
        )
    ]
    # when
    played = play(Play(change=cloneset(replicas=3), beside=beside, world=PlayWorld(nodes=nodes)))
    # then
    assert played.samples[-1].subsets == {"a": 1, "b": 2}
    assert played.status["availableReplicas"] == 3
    assert played.duration_s > 60


def test_the_timeline_and_the_chart_name_subsets(tmp_path: Path) -> None:
    # given
    first = written(tmp_path / "app.yaml", cloneset(replicas=2), spread(subset("a", 2), subset("b")))
    change = written(tmp_path / "new.yaml", cloneset(replicas=4, image="nginx:2"))
    # when
    code, output = run("-f", first, "--change", change)
    # then
    assert code == 0, output
    same_as("simulate-spread.txt", output)


def test_a_spread_changes_beside_its_workload(tmp_path: Path) -> None:
    # given
    first = written(tmp_path / "app.yaml", cloneset(replicas=2), spread(subset("a", 2), subset("b")))
    change = written(
        tmp_path / "new.yaml", spread(subset("a", 3), subset("b")), cloneset(replicas=5, image="nginx:1")
    )
    # when
    code, output = run("-f", first, "--change", change)
    # then
    assert code == 0, output
    assert "subsets             a 3, b 2" in output


def test_nodes_that_are_given_are_taken(tmp_path: Path) -> None:
    # given several nodes as kubectl prints them
    nodes = {"apiVersion": "v1", "kind": "List", "items": [node("one", "a"), node("two", "b")]}
    first = written(tmp_path / "app.yaml", cloneset(replicas=2), spread(subset("a", 1), subset("b")), nodes)
    # when
    code, output = run("-f", first, "--drain", "one@5s", "--pods-ready-after", "10s")
    # then it is played, and is stuck: the subset has no nodes left
    assert code == 3, output
    assert "one is drained" in output
    assert "created for this" not in output
    # and nothing else can be drained
    code, output = run("-f", first, "--drain", "node-1@5s")
    assert (code, output) == (
        1,
        "error: --drain 'node-1@5s': no node is named 'node-1'; available: one, two\n",
    )


def test_a_refused_workload_spread_is_reported_in_one_line(tmp_path: Path) -> None:
    first = written(tmp_path / "app.yaml", cloneset(replicas=2), spread(subset("a", 2), subset("b")))
    change = written(tmp_path / "new.yaml", spread(subset("a", 2), subset("a")))
    code, output = run("-f", first, "--change", change)
    assert (code, len(output.splitlines())) == (1, 1), output
    assert output.startswith("error: new.yaml is rejected: spec.subsets[1]")
