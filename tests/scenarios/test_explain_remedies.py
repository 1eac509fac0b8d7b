"""`pykruise explain`: causes that it names, objects that are no cause, exit codes; `doctor` without an API server."""

import asyncio
from typing import Any

import pytest

from pykruise.cli.doctor import join_findings
from pykruise.cli.errors import CommandError
from pykruise.cli.explain import read_and_explain, read_targets, run_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.sidecarset.origins import origin_of
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, Resource
from pykruise.manager.doctor.findings import make_fault, make_fine
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import daemonset
from support.scenario import Object, Stage, cloneset, rolling
from support.up import pykruise

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


async def found_of(stage: Stage, name: str = "web") -> tuple[Explanation, str]:
    """The explanation of a CloneSet, and its text."""
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, name), now=stage.clock(), kind=CLONE_SET
    )
    return explanation, format_explanation(explanation, now=stage.clock())


async def until_caused(stage: Stage, cause: str) -> tuple[Explanation, str]:
    """The explanation and its text, as soon as it names this cause."""
    result: list[tuple[Explanation, str]] = []

    async def is_caused() -> bool:
        result[:] = [await found_of(stage)]
        return result[0][0].cause == cause

    await stage.until(is_caused, what=f"the cause is {cause}")
    return result[0]


@pytest.mark.virtual_time("it is about the times of tries")
async def test_a_refused_write_reports_its_last_and_next_try(stage: Stage) -> None:
    # given a quota that lets no pod be
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {"pods": "0"}},
    }
    await stage.create(quota, resource=QUOTAS)
    await stage.start_manager()
    await stage.create(cloneset())
    await asyncio.sleep(60.0)
    # when
    explanation, said = await until_caused(stage, "Quota")
    # then
    assert explanation.waits[0].tried
    assert explanation.waits[0].again > explanation.waits[0].tried
    assert "last tried " in said
    assert "next try in about " in said or "next try now" in said
    # and all tries are one event with a count
    (event,) = await stage.events("FailedCreate")
    assert event["count"] > 3
    assert "web-" not in event["message"]


@pytest.mark.needs_admission
async def test_a_pod_field_patched_by_a_workload_spread_is_traced_to_it(stage: Stage) -> None:
    # given a patch that makes pods which API servers refuse, but the spread's own admission takes
    await stage.start_manager()
    patch = {"spec": {"tolerations": [{"key": "x", "operator": "Exists", "value": "no"}]}}
    spread = {
        "apiVersion": WORKLOAD_SPREADS.api_version,
        "kind": WORKLOAD_SPREADS.kind,
        "metadata": {"name": "zones"},
        "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
            "subsets": [{"name": "a", "patch": patch}],
        },
    }
    await stage.create(spread, resource=WORKLOAD_SPREADS)
    await stage.create(cloneset())
    # when
    explanation, _ = await until_caused(stage, "WriteFailed")
    # then
    assert explanation.waits[0].remedy == "correct spec.subsets[0].patch of WorkloadSpread zones"


def _sidecarset(name: str, labels: Object, **container: Any) -> Object:
    container = {"name": name, "image": f"{name}:1", **container}
    volumes = [{"name": f"of-{name}", "emptyDir": {}}]
    container["volumeMounts"] = [{"name": f"of-{name}", "mountPath": f"/{name}"}]
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "containers": [container], "volumes": volumes},
    }


@pytest.mark.parametrize(
    ("field", "origin"),
    [
        ("spec.containers[0].image", "spec.containers[0] of SidecarSet a"),
        ("spec.containers[1].ports[0]", "spec.containers[0] of SidecarSet b"),
        ("spec.containers[2].image", None),
        ("spec.containers[3].image", None),
        ("spec.containers[4].image", "spec.containers[0] of SidecarSet c"),
        ("spec.containers[5].image", "spec.containers[0] of SidecarSet hot"),
        ("spec.containers[6].image", "spec.containers[0] of SidecarSet hot"),
        ("spec.containers[7].image", None),
        ("spec.volumes[0].name", "spec.volumes[0] of SidecarSet a"),
        ("spec.nodeName", None),
    ],
)
def test_a_part_of_a_pod_is_traced_to_the_sidecarset_that_injects_it(field: str, origin: str | None) -> None:
    """Sidecars are injected before the template's containers by default, and after them with AfterAppContainer."""
    own = [{"name": "main", "image": "m:1"}, {"name": "side", "image": "s:1"}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": own}}
    workload = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"template": template}}
    after: Object = {"podInjectPolicy": "AfterAppContainer"}
    hot: Object = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}
    sets = [
        _sidecarset("b", {"app": "web"}),
        _sidecarset("a", {"app": "web"}),
        _sidecarset("c", {"app": "web"}, **after),
        _sidecarset("hot", {"app": "web"}, **after, upgradeStrategy=hot),
        _sidecarset("other", {"app": "x"}),
    ]
    result = origin_of(field, workload, sets)
    assert result == origin if origin is None else str(result) == origin


async def test_the_label_of_a_hook_is_named_in_the_condition_too(stage: Stage) -> None:
    # given pods that a label holds
    await stage.start_manager()
    document = cloneset()
    document["spec"]["lifecycle"] = {"preDelete": {"labelsHandler": {"hook": "on"}}}
    document["spec"]["template"]["metadata"]["labels"]["hook"] = "on"
    await stage.create(document)
    await stage.settled(replicas=3)
    # when one is to go
    await stage.merge("web", {"spec": {"replicas": 2}})
    explanation, said = await until_caused(stage, "PreDeleteHook")
    # then
    assert "label hook=on" in said

    async def is_in_condition() -> bool:
        return "label hook=on" in (await found_of(stage))[0].condition or "label hook=on" in str(
            await stage.status()
        )

    await stage.until(is_in_condition)
    assert explanation.phase.needs_a_person


async def test_no_partition_is_named_as_the_cause_without_one(stage: Stage) -> None:
    # given an update that goes by surge, with new pods that take their time
    await stage.start_manager()
    await stage.create(cloneset(updateStrategy=rolling(maxSurge=1, maxUnavailable=0)))
    await stage.settled(replicas=3)
    stage.kubelets.set_rules([Rule(image="nginx:2", never_ready=True)])
    await stage.set_image("web", "nginx:2")
    await asyncio.sleep(stage.long_s / 5)
    # then
    explanation, said = await found_of(stage)
    assert "Partition" not in {wait.code for wait in explanation.waits}, said
    assert "partition" not in said


async def test_the_claim_and_its_missing_storage_class_are_named(stage: Stage) -> None:
    await stage.start_manager()
    document = cloneset(replicas=1)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "unprovisioned-class",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    document["spec"]["volumeClaimTemplates"] = [claim]
    await stage.create(document)
    explanation, said = await until_caused(stage, "UnboundClaims")
    assert "PVC data-web-" in said
    assert "requests storage class unprovisioned-class, which does not exist" in said
    assert explanation.phase.needs_a_person


async def test_in_place_only_is_reported_first_and_no_budget_is_named(stage: Stage) -> None:
    # given a change that cannot be made in place, where nothing else is allowed
    await stage.start_manager()
    strategy = rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable=1)
    await stage.create(cloneset(updateStrategy=strategy))
    await stage.settled(replicas=3)
    await stage.merge("web", {"spec": {"template": {"spec": {"priorityClassName": "", "hostname": "x"}}}})
    # then
    explanation, said = await until_caused(stage, "NotInPlace")
    assert not {wait.code for wait in explanation.waits} & {"Budget", "MaxUnavailable", "Turn"}, said


async def test_an_overlap_of_selectors_is_named(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    other = cloneset("other", replicas=1)
    other["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
    await stage.create(other)

    async def is_named() -> bool:
        return "SelectorOverlap" in (await found_of(stage))[1]

    await stage.until(is_named)


# ── arguments and exit codes ─────────────────────────────────────────────────


async def explain(stage: Stage, *targets: str, **given: Any) -> tuple[int, str]:
    """Exit code and text of the command."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def reach(*_: object) -> Any:
        yield stage.client, stage.namespace

    printed: list[str] = []
    fixed: dict[str, Any] = {"namespace": None, "watch": False, "output": "text", "every_s": 0.5}
    code = await run_explain(
        *targets, **(fixed | given), kubeconfig=None, context=None, say=printed.append, reach=reach
    )
    return code, "\n".join(printed)


async def test_objects_are_named_as_for_kubectl_and_the_worst_sets_the_exit_code(stage: Stage) -> None:
    # given one that is done, and one that needs a person
    await stage.start_manager()
    await stage.create(cloneset("good"))
    await stage.settled("good", replicas=3)
    stage.kubelets.set_rules([Rule(image="bad:1", image_pull_error=True)])
    await stage.create(cloneset("bad", image="bad:1"))

    async def is_stuck() -> bool:
        return "ImagePull" in (await explain(stage, "clone/bad"))[1]

    await stage.until(is_stuck)
    # then
    assert (await explain(stage, "clone", "good"))[0] == 0
    assert (await explain(stage, "clonesets/bad"))[0] == 3
    code, both = await explain(stage, "clone/good", "clone/bad")
    assert code == 3
    assert both.count(f"CloneSet {stage.namespace}/") == 2
    for words in (("clone",), ("clonesets",), ("all",), ("clone", "good", "bad")):
        assert (await explain(stage, *words))[1].count(f"CloneSet {stage.namespace}/") == 2
    assert "good" in (await explain(stage, "clone", everywhere=True))[1]
    assert (await explain(stage, "clone", selector="app=none"))[0] == 0
    # and a watch ends after its timeout
    assert (await explain(stage, "clone/bad", watch=True, timeout_s=0.1))[0] == 3


def test_wrong_targets_are_one_line() -> None:
    for words in ((), ("clone/a", "b"), ("ships",)):
        with pytest.raises(CommandError):
            read_targets(words)


def test_the_same_fault_of_many_kinds_is_reported_in_one_line() -> None:
    findings = join_findings(
        [
            make_fault("crds", "a.x is not installed", "apply"),
            make_fault("crds", "b.x is not installed", "apply"),
            make_fine("lease", "held by one"),
        ]
    )
    assert [finding.format_line() for finding in findings] == [
        "fault    crds: a.x, b.x is not installed — fix: apply",
        "ok       lease: held by one",
    ]


@pytest.mark.real_time
def test_the_doctor_reports_in_one_line_that_no_api_server_answers(tmp_path: Any) -> None:
    config: Object = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    import yaml

    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    done = pykruise("doctor", "--kubeconfig", str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: the API server does not respond: ")


@pytest.mark.virtual_time("it taints a node")
async def test_pods_on_excluded_nodes_do_not_contradict_the_headline(stage: Stage) -> None:
    # given a DaemonSet, one of whose nodes takes no more pods, but keeps the one that it has
    await stage.start_manager()
    await stage.create(daemonset("agent"), resource=DAEMON_SETS)

    async def is_done() -> bool:
        status = (await stage.get("agent", resource=DAEMON_SETS)).get("status") or {}
        return bool(status.get("numberAvailable") == 4)

    await stage.until(is_done)
    taint = {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}
    await stage.client.patch(NODES, "", "node-1", taint, patch_type=PatchType.MERGE)

    async def is_misscheduled() -> bool:
        return bool((await stage.get("agent", resource=DAEMON_SETS))["status"].get("numberMisscheduled") == 1)

    await stage.until(is_misscheduled)
    # when
    key = Key(stage.namespace, "agent")
    explanation = await read_and_explain(stage.client, key, now=stage.clock(), kind=DAEMON_SET)
    # then
    assert "3 of 3 available" in explanation.headline
    assert (
        "1 of them are on nodes that should have no pod, and the count above leaves them out"
        in explanation.done[0]
    )
