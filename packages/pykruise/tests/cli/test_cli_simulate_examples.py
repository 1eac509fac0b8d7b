"""`pykruise simulate` of every example with a workload: its creation and an update of its images."""

import copy
from pathlib import Path

import pytest

from pykruise.cli.insight.known_kinds import is_of
from pykruise.cli.insight.known_kinds import list_workloads as workload_kinds
from pykruise.cli.insight.simulating import Play, nodes_of_subsets, play
from pykruise.cli.insight.simulating.values import PlayWorld
from pykruise.cli.simulate_report import report
from support.scenario import Object
from support.yaml_documents import yaml_documents

EXAMPLES = Path(__file__).parents[4] / "examples"


def parts(path: Path) -> tuple[list[Object], list[Object]]:
    """The workloads of an example, and its SidecarSets and WorkloadSpreads."""
    documents = yaml_documents(path.read_text("utf-8"))
    workloads = [
        document for document in documents if any(is_of(kind, document) for kind in workload_kinds())
    ]
    return workloads, [
        document for document in documents if document["kind"] in ("SidecarSet", "WorkloadSpread")
    ]


WITH_WORKLOAD = [path for path in sorted(EXAMPLES.glob("*.yaml")) if len(parts(path)[0]) == 1]


def with_new_images(workload: Object) -> Object:
    changed = copy.deepcopy(workload)
    for container in changed["spec"]["template"]["spec"]["containers"]:
        container["image"] += "-new"
    return changed


@pytest.mark.parametrize("path", WITH_WORKLOAD, ids=lambda path: path.stem)
def test_an_example_is_played_to_its_end(path: Path) -> None:
    # given
    (workload,), beside = parts(path)
    nodes, _ = nodes_of_subsets(beside, 3)
    # when
    played = play(
        Play(first=workload, change=with_new_images(workload), beside=beside, world=PlayWorld(nodes=nodes))
    )
    # then
    outcome = report(path.name, played)[0].removeprefix(f"{path.name}: ")
    assert outcome.startswith(("complete after ", "completed: ", "finished and deleted ")), played.end
    assert played.actions or played.skipped
