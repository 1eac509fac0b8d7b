"""The public harnesses of harness/: what kube-burner and clusterloader2 would create and change is played here.

Neither program is needed. The programs themselves are run by tests/others/test_harnesses.py.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from harness.pods import CREATION, UPDATE, list_problems, measure
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, PODS, Resource
from support.harness import HARNESS, render_cluster_loader, render_kube_burner, render_object
from support.scenario import Stage

KINDS: Final = ("cloneset", "statefulset", "deployment")
RESOURCES: Final[dict[str, Resource]] = {
    "cloneset": CLONE_SETS,
    "statefulset": ADVANCED_STATEFUL_SETS,
    "deployment": DEPLOYMENTS,
}
PODS_OF_EACH: Final = 5


def jobs_of(kind: str, **environment: str) -> dict[str, Any]:
    """The jobs of kube-burner for a kind, by their first word."""
    config = render_kube_burner(HARNESS_PODS=str(PODS_OF_EACH), HARNESS_WORKLOADS="1", **environment)
    return {job["name"].partition("-")[0]: job for job in config["jobs"] if job["name"].endswith(f"-{kind}")}


def is_reached(status: Any, key: str) -> bool:
    """Whether the status fulfils a query of the configuration: comparisons, joined by `and`."""
    words = re.fullmatch(r"\((.*)\) \| tostring", key)
    assert words, key
    for claim in words[1].split(" and "):
        comparison = re.fullmatch(r"\.(\w+) (==|>=) (\d+)", claim)
        assert comparison, claim
        field, operator, number = comparison[1], comparison[2], int(comparison[3])
        value = status.get(field, 0)
        if not (value >= number if operator == ">=" else value == number):
            return False
    return True


@pytest.mark.all_controllers
@pytest.mark.parametrize("kind", KINDS)
async def test_kube_burner_creates_and_updates_a_workload(stage: Stage, kind: str) -> None:
    # given
    await stage.start_manager()
    jobs = jobs_of(kind)
    assert list(jobs) == ["create", "churn", "update", "delete"]
    (created,) = jobs["create"]["objects"]
    given = created["inputVars"] | {"Replica": 1, "RunID": "run", "UUID": "some-run"}
    document = render_object(HARNESS / created["objectTemplate"], **given)
    resource = RESOURCES[kind]
    name = document["metadata"]["name"]

    async def reaches(entry: Any) -> bool:
        status = (await stage.get(name, resource=resource)).get("status") or {}
        (path,) = entry["waitOptions"]["customStatusPaths"]
        return path["value"] == "true" and is_reached(status, path["key"])

    # when the workload is created
    await stage.create(document, resource=resource)
    # then it fulfils what kube-burner waits for
    await stage.until(lambda: reaches(created), what="all pods are ready")
    # and the selector of the churn matches its pods
    (churned,) = jobs["churn"]["objects"]
    for pod in await stage.stored(PODS):
        assert churned["labelSelector"].items() <= pod["metadata"]["labels"].items()
    # when the patch of the update is sent
    (updated,) = jobs["update"]["objects"]
    assert (updated["kind"], updated["apiVersion"]) == (document["kind"], document["apiVersion"])
    assert not await reaches(updated)
    patch = render_object(HARNESS / updated["objectTemplate"], **updated["inputVars"])
    stored = await stage.client.patch(resource, stage.namespace, name, patch, patch_type=PatchType.JSON)
    assert decode(stored)["metadata"]["generation"] == 2
    # then kube-burner sees its end, and the pods were updated in place
    await stage.until(lambda: reaches(updated), what="all pods are updated")
    check_pods(await stage.stored(PODS), kind, image=updated["inputVars"]["image"])


@pytest.mark.all_controllers
@pytest.mark.parametrize("kind", KINDS)
async def test_clusterloader_creates_and_updates_a_workload(stage: Stage, kind: str) -> None:
    # given
    await stage.start_manager()
    config = render_cluster_loader(CL2_KINDS=kind, CL2_PODS=str(PODS_OF_EACH), CL2_WORKLOADS="1")
    phases = [phase for step in config["steps"] for phase in step.get("phases", ())]
    resource = RESOURCES[kind]

    async def is_done(image: str, pods: int) -> bool:
        workload = await stage.get(f"{kind}-0", resource=resource)
        status = workload.get("status") or {}
        is_seen = status.get("observedGeneration") == workload["metadata"]["generation"]
        stored = await stage.stored(PODS)
        images = [pod["spec"]["containers"][0]["image"] for pod in stored]
        return is_seen and images == [image] * pods and status.get("readyReplicas") == pods

    # when each phase is played, then the pods follow
    for phase in phases:
        (bundle,) = phase["objectBundle"]
        path = HARNESS / "clusterloader2" / bundle["objectTemplatePath"]
        filled = bundle["templateFillMap"]
        document = render_object(path, Name=f"{kind}-0", **filled)
        if phase is phases[0]:
            await stage.create(document, resource=resource)
        elif phase["replicasPerNamespace"]:
            await stage.merge(f"{kind}-0", {"spec": document["spec"]}, resource=resource)
        else:
            await stage.delete(f"{kind}-0", resource=resource)
            continue
        await stage.until(
            lambda filled=filled: is_done(filled["Image"], filled["Pods"]), what="the phase has ended"
        )
        if filled["Image"] != phases[0]["objectBundle"][0]["templateFillMap"]["Image"]:
            check_pods(await stage.stored(PODS), kind, image=filled["Image"])
    assert [phase["objectBundle"][0]["templateFillMap"]["Pods"] for phase in phases] == [5, 2, 5, 5, 5]
    assert [phase["replicasPerNamespace"] for phase in phases] == [1, 1, 1, 1, 0]


def check_pods(pods: list[Any], kind: str, *, image: str) -> None:
    """Check that all pods have the image, that in-place updates recreated none, and that the outage was measured."""
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [image] * PODS_OF_EACH
    assert list_problems(measure(pods, CREATION), pods=PODS_OF_EACH, p99_s=3600) == []
    outage = measure(pods, UPDATE)
    problems = list_problems(outage, pods=PODS_OF_EACH, p99_s=5)
    if kind == "deployment":
        assert problems == [f"{PODS_OF_EACH} of {PODS_OF_EACH} pods were not updated in place"]
    else:
        assert problems == []
        assert len(outage.seconds) == PODS_OF_EACH


@pytest.mark.sandbox_only
def test_every_file_and_tuning_set_that_a_configuration_names_exists() -> None:
    # given
    kube_burner, cluster_loader = render_kube_burner(), render_cluster_loader()
    # then
    templates = {entry.get("objectTemplate") for job in kube_burner["jobs"] for entry in job["objects"]}
    hooks = {hook["cmd"][1] for job in kube_burner["jobs"] for hook in job.get("hooks", ())}
    phases = [phase for step in cluster_loader["steps"] for phase in step.get("phases", ())]
    bundles = {
        Path("clusterloader2", bundle["objectTemplatePath"])
        for phase in phases
        for bundle in phase["objectBundle"]
    }
    commands = {command[1] for command in commands_of(cluster_loader)}
    for name in {*templates, *hooks, *bundles, *commands} - {None}:
        assert (HARNESS / name).is_file(), name
    used = {phase["tuningSet"] for phase in phases}
    assert used == {tuning["name"] for tuning in cluster_loader["tuningSets"]}


def commands_of(config: Any) -> list[list[str]]:
    """The commands that clusterloader2 runs."""
    return [
        measurement["Params"]["command"]
        for step in config["steps"]
        for measurement in step.get("measurements", ())
        if measurement["Method"] == "Exec"
    ]


@pytest.mark.sandbox_only
def test_every_setting_is_on_the_page_with_its_default() -> None:
    # given
    page = (HARNESS.parent / "docs/harness.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", page, re.MULTILINE))
    # then
    texts = [
        (HARNESS / name).read_text() for name in ("kube-burner/workloads.yml", "clusterloader2/config.yaml")
    ]
    defaults = dict(re.findall(r'get \. "(\w+)" \| default "([^"]*)"', texts[0]))
    defaults |= {
        name: value.strip('"') for name, value in re.findall(r"DefaultParam \.(\w+) ([^}]+)}}", texts[1])
    }
    assert rows == defaults


@pytest.mark.sandbox_only
def test_problems_of_an_update_in_place_are_reported() -> None:
    # given a pod that was out of service for seven seconds, one that still is, and one that was recreated
    state = json.dumps({"revision": "b", "updateTimestamp": "2026-01-01T00:00:01Z"})

    def pod(status: str, *, in_place: bool = True) -> dict[str, Any]:
        annotations = {"apps.kruise.io/inplace-update-state": state} if in_place else {}
        condition = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:08Z"}
        return {"metadata": {"annotations": annotations}, "status": {"conditions": [condition]}}

    outage = measure([pod("True"), pod("False"), pod("True", in_place=False)], UPDATE)
    # then
    assert list_problems(outage, pods=4, p99_s=5) == [
        "there are 3 pods instead of 4",
        "1 of 3 pods were not updated in place",
        "1 of 3 pods are not ready",
        "the 99th percentile of the time until pods are ready is 7 s, longer than 5 s",
    ]
