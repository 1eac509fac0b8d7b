"""`pykruise simulate` of a changed SidecarSet with a workload: played by the real manager, in virtual time."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pykruise.cli.insight.simulating import Play, play
from pykruise.cli.main import app
from pykruise.cli.simulate_report import report
from support.scenario import cloneset
from support.sidecarsets import container, hot, sidecarset


def workload() -> dict[str, Any]:
    return cloneset(replicas=4)


def log(image: str, **spec: Any) -> dict[str, Any]:
    return sidecarset("log", container("log", image), **spec)


def written(path: Path, *documents: Any) -> str:
    path.write_text(yaml.safe_dump_all(documents), "utf-8")
    return str(path)


def test_sidecars_are_upgraded_in_batches_and_no_pod_is_created() -> None:
    # when
    played = play(
        Play(
            first=workload(),
            beside=[log("log:1")],
            beside_changes=[log("log:2", updateStrategy={"maxUnavailable": 2})],
        )
    )
    # then
    assert [action.do for action in played.actions] == ["upgrade sidecars"] * 4
    assert [action.batch for action in played.actions] == sorted(action.batch for action in played.actions)
    assert played.is_over
    assert played.samples[-1].revisions == {played.target: 4}
    assert played.status["updatedReadyPods"] == 4
    assert played.lowest_available >= 2


def test_hot_sidecars_alternate_and_the_apps_are_not_restarted() -> None:
    # given
    plays = {"beside": [sidecarset("proxy", hot("proxy", "proxy:1"))]}
    changed = sidecarset("proxy", hot("proxy", "proxy:2"), updateStrategy={"maxUnavailable": 1})
    # when
    played = play(Play(first=workload(), beside_changes=[changed], **plays))
    # then in each pod the new container starts and, once it runs, the old one gets the empty image
    assert {action.do for action in played.actions} == {"upgrade sidecars"}
    assert (played.restarts, played.lowest_available) == (8, 3)
    assert played.end is not None
    assert played.end.verdict == "done"


@pytest.mark.parametrize(
    ("strategy", "outcome", "code", "new"),
    [
        ({"partition": "50%", "maxUnavailable": 2}, "complete after ", "Partition", 2),
        ({"paused": True}, "paused after 0s: 4 of 4 pods", "Paused", 0),
        ({"selector": {"matchLabels": {"app": "other"}}}, "stuck after 0s", "NothingSelected", 0),
    ],
)
def test_a_blocked_sidecar_update_reports_its_cause(
    strategy: dict[str, Any], outcome: str, code: str, new: int
) -> None:
    # when
    changes = [log("log:2", updateStrategy=strategy)]
    played = play(Play(first=workload(), beside=[log("log:1")], beside_changes=changes))
    lines = report("new.yaml", played)
    # then
    assert lines[0].startswith(f"new.yaml: {outcome}"), lines[0]
    assert played.end is not None
    assert [wait.code for wait in played.end.waits] == [code]
    assert played.samples[-1].revisions.get(played.target, 0) == new


def test_agents_restart_the_containers_that_read_a_changed_annotation() -> None:
    # given a list that allows the annotation, and a sidecar whose variable reads it
    allowed = {"rules": [{"allowedAnnotationKeyExprs": ["^level$"]}]}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
        "data": {"SidecarSet_PatchPodMetadata_WhiteList": json.dumps(allowed)},
    }
    level = {"name": "LEVEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['level']"}}}

    def leveled(value: str) -> dict[str, Any]:
        patches = [{"annotations": {"level": value}, "patchPolicy": "Overwrite"}]
        document = sidecarset("log", container("log", "log:1", env=[level]), patchPodMetadata=patches)
        document["metadata"]["annotations"] = {"pykruise.io/roll-on-pod-metadata": "true"}
        return document

    # when
    changes = [leveled("debug")]
    played = play(Play(first=workload(), beside=[config, leveled("info")], beside_changes=changes))
    # then
    assert played.is_over
    assert played.restarts == 4
    assert played.lowest_available == 3
    assert played.end is not None
    assert played.end.verdict == "done"


def test_sidecars_that_never_become_ready_are_what_it_waits_for() -> None:
    # when
    changes = [log("log:2")]
    played = play(Play(first=workload(), beside=[log("log:1")], beside_changes=changes, fail_share=1.0))
    # then
    assert report("new.yaml", played)[0].startswith("new.yaml: stuck after ")
    assert played.end is not None
    assert played.end.kind == "SidecarSet"
    assert played.end.cause == "NotReady"


def test_a_change_that_admission_refuses_is_reported() -> None:
    # given a change that adds a container
    changed = sidecarset("log", container("log"), container("other"))
    # when
    played = play(Play(first=workload(), beside=[log("log:1")], beside_changes=[changed]))
    # then
    assert any("container other is not found" in text for text in played.refused), played.refused


def test_the_command_takes_a_sidecarset_from_both_files(tmp_path: Path) -> None:
    # given
    first = written(tmp_path / "app.yaml", workload(), log("log:1"))
    change = written(tmp_path / "new.yaml", log("log:2"))
    # when
    done = CliRunner().invoke(app, ["simulate", "-f", first, "--change", change])
    # then
    assert done.exit_code == 0, done.output
    assert "new.yaml: complete" in done.output
    assert "4 got new sidecars" in done.output
