"""`pykruise simulate` of a SidecarSet's change over a workload: played by the real manager, in virtual time."""

from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from pykruise.cli.insight.playing import Play, play
from pykruise.cli.main import app
from support.scenario import cloneset
from support.sidecarsets import container, sidecarset


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


def test_a_change_that_admission_refuses_is_said() -> None:
    # given a change that adds a container
    changed = sidecarset("log", container("log"), container("other"))
    # when
    played = play(Play(first=workload(), beside=[log("log:1")], beside_changes=[changed]))
    # then
    assert any("container other is not found" in one for one in played.refused), played.refused


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
