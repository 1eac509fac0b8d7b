"""`pykruise simulate` of a workload with a PodUnavailableBudget: deletions, evictions and updates use it up."""

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from pykruise.cli.insight.simulating import Drain, Play, Played, play
from pykruise.cli.main import app
from pykruise.cli.simulate_report import report
from pykruise.kinds.gates import Gates
from pykruise.manager.settings import ManagerSettings
from support.scenario import Object, cloneset, rolling

BOTH_GATES = ManagerSettings(gates=Gates.of(PodUnavailableBudgetUpdateGate=True))


def budget(**spec: Any) -> Object:
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}
    return {
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "pub"},
        "spec": {"targetRef": target, **spec},
    }


def workload(image: str = "nginx:1", *, policy: str = "ReCreate") -> Object:
    """Four pods that would all be updated at the same time."""
    workload = cloneset(replicas=4)
    workload["spec"]["updateStrategy"] = rolling(podUpdatePolicy=policy, maxUnavailable="100%")
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return workload


def played(change: Object | None, amount: Object, **fields: Any) -> Played:
    first = workload(policy=fields.pop("policy", "ReCreate"))
    given: dict[str, Any] = {"ready_after_s": (10.0, 10.0), **fields}
    return play(Play(first=first, beside=(amount,), change=change or first, **given))


def test_pods_are_recreated_as_fast_as_the_budget_allows() -> None:
    result = played(workload("nginx:2"), budget(maxUnavailable=1))
    assert result.is_over
    assert result.lowest_available == 3
    assert result.duration_s >= 40
    assert result.end is not None
    assert result.end.verdict == "done"
    # and the refused ones are reported
    assert result.kept["pub"] > 0
    assert any("is protected by PodUnavailableBudget pub" in what for _, what in result.events)
    assert any(line.startswith("budgets             pub rejected") for line in report("new", result))


def test_in_place_updates_spend_the_budget_only_with_the_gate() -> None:
    change = workload("nginx:2", policy="InPlaceIfPossible")
    with_gate = played(change, budget(maxUnavailable=2), policy="InPlaceIfPossible", settings=BOTH_GATES)
    without = played(change, budget(maxUnavailable=2), policy="InPlaceIfPossible")
    assert (with_gate.lowest_available, without.lowest_available) == (2, 0)
    assert {action.do for action in with_gate.actions} == {"update in place"}


def test_a_drain_evicts_pods_sequentially_and_completes() -> None:
    # given four pods on two nodes, of which one is drained
    result = played(None, budget(maxUnavailable=1), nodes=2, drains=(Drain("node-1", 0.0),))
    # then never two are out, and all have moved
    assert result.lowest_available == 3
    assert result.is_over
    assert sum(action.do == "create" for action in result.actions) == 2


def test_a_budget_that_blocks_every_eviction_is_reported_at_the_end() -> None:
    result = played(None, budget(maxUnavailable=0), nodes=2, drains=(Drain("node-1", 0.0),))
    assert result.lowest_available == 4
    assert result.end is not None
    assert (result.end.kind, result.end.cause) == ("PodUnavailableBudget", "DisruptionRefused")
    line = "no pod may be disrupted as long as 4 of 4 pods must serve: to allow disruptions, raise maxUnavailable"
    assert line in result.end.next


def test_the_command_takes_feature_gates(tmp_path: Path) -> None:
    now, new = tmp_path / "now.yaml", tmp_path / "new.yaml"
    now.write_text(yaml.safe_dump_all([workload(policy="InPlaceIfPossible"), budget(maxUnavailable=1)]))
    new.write_text(yaml.safe_dump(workload("nginx:2", policy="InPlaceIfPossible")))
    command = ["simulate", "-f", str(now), "--change", str(new), "--feature-gates"]
    done = CliRunner().invoke(app, [*command, "PodUnavailableBudgetUpdateGate=true"])
    assert done.exit_code == 0
    assert "lowest available    3" in done.output
    assert CliRunner().invoke(app, [*command, "NoGate=true"]).exit_code == 1
