"""A rollout always finishes or says why: the cause that keeps a CloneSet from its spec is named, with the remedy.

Objects that admission would refuse are written past it. In every scenario another CloneSet goes on unharmed, and
the first recovers by itself once it is put right.
"""

import asyncio
from typing import Any

import pytest

from pykruise.kinds.gates import Gates
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.view import keys
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from support.faults import Answer, FaultyTransport, Request, posts
from support.kstatus import other_conditions
from support.scenario import Object, Stage, cloneset, rolling

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


async def says(stage: Stage, kind: str, reason: str, *words: str, name: str = "web") -> Object:
    """Wait for the condition of this type and reason; it has these words in its message."""

    async def found() -> Object | None:
        conditions = (await stage.status(name)).get("conditions") or []
        return next(
            (
                condition
                for condition in conditions
                if (condition["type"], condition["status"], condition["reason"]) == (kind, "True", reason)
                and all(word in condition["message"] for word in words)
            ),
            None,
        )

    condition: Object = await stage.until(found, what=f"{kind}: {reason}")
    assert condition["lastTransitionTime"]
    assert condition["message"]
    return condition


async def reported(stage: Stage, reason: str, words: str) -> None:
    """Wait for the event that says the same."""
    events = await stage.until(lambda: stage.events(reason), what=f"an event {reason}")
    assert events[0]["type"] == "Warning"
    assert words in events[0]["message"]


async def quiet_now(stage: Stage, name: str) -> bool:
    """Whether no condition is True."""
    conditions = other_conditions(await stage.status(name))
    return not any(condition["status"] == "True" for condition in conditions)


async def quiet(stage: Stage) -> None:
    """Wait until the CloneSet `web` has no condition that is True."""
    await stage.until(lambda: quiet_now(stage, "web"), what="no condition is True")


async def with_neighbour(stage: Stage) -> None:
    """Start a manager, and create a CloneSet that the fault of the scenario does not concern."""
    await stage.start_manager()
    await stage.create(cloneset("calm", replicas=2))
    await stage.settled("calm", replicas=2)


async def neighbour_works(stage: Stage) -> None:
    await stage.scale("calm", 3)
    await stage.settled("calm", replicas=3)


def container(**fields: Any) -> Object:
    """A patch of the template's only container."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:1", **fields}]}}}}


async def test_min_ready_seconds_that_use_up_the_limit_are_the_cause(stage: Stage) -> None:
    # given
    await with_neighbour(stage)
    strategy = rolling(podUpdatePolicy="ReCreate", maxUnavailable=1)
    await stage.create(cloneset(replicas=3, minReadySeconds=3600, updateStrategy=strategy))
    await says(stage, "Waiting", "MinReadySeconds")

    async def marked() -> bool:
        return any(keys.SPECIFIED_DELETE_LABEL in pod.labels for pod in await stage.pods())

    # when
    await stage.set_image("web", "nginx:2")
    await stage.until(marked, what="a pod is specified for deletion")
    await asyncio.sleep(2)
    # then
    await says(stage, "Waiting", "MinReadySeconds", "must be ready for 3600 s")


async def test_a_template_that_the_api_server_refuses(stage: Stage) -> None:
    # given
    await with_neighbour(stage)
    with stage.past_admission():
        body = cloneset(replicas=2)
        body["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
        await stage.create(body)
    # then
    await says(
        stage, "FailedScale", "WriteFailed", "imagePullPolicy", "; correct what the API server rejects"
    )
    events = await stage.until(lambda: stage.events("FailedCreate"))
    assert "imagePullPolicy" in events[0]["message"]
    await neighbour_works(stage)
    # when
    await stage.merge("web", container(imagePullPolicy="Always"))
    # then
    await stage.settled(replicas=2)
    await quiet(stage)


@pytest.mark.parametrize(
    ("broken", "fixed", "kind", "field"),
    [
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "abc%"}}},
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%"}}},
            "FailedUpdate",
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": "5"}}},
            {"updateStrategy": {"rollingUpdate": {"partition": 0}}},
            "FailedUpdate",
            "spec.updateStrategy.rollingUpdate.partition",
        ),
        (
            {"scaleStrategy": {"maxUnavailable": "many"}},
            {"scaleStrategy": None},
            "FailedScale",
            "spec.scaleStrategy.maxUnavailable",
        ),
        (
            {"template": {"metadata": {"labels": {"app": "other"}}}},
            {"template": {"metadata": {"labels": {"app": "web"}}}},
            "FailedScale",
            "spec.template.metadata.labels",
        ),
    ],
    ids=["maxUnavailable", "partition", "scale maxUnavailable", "template labels"],
)
async def test_a_value_that_got_around_admission(
    stage: Stage, broken: Object, fixed: Object, kind: str, field: str
) -> None:
    # given
    await with_neighbour(stage)
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    before = {pod.uid for pod in await stage.pods()}
    # when
    with stage.past_admission():
        await stage.merge("web", {"spec": broken})
    await says(stage, kind, "InvalidSpec", field)
    await reported(stage, "InvalidSpec", field)
    await stage.scale("web", 4) if "template" not in broken else None
    # then no pod is touched
    await neighbour_works(stage)
    assert {pod.uid for pod in await stage.pods()} == before
    # when
    await stage.merge("web", {"spec": {**fixed, "replicas": 3}})
    # then
    await stage.settled(replicas=3)
    await quiet(stage)


def rival() -> Object:
    """A CloneSet whose selector matches the pods of `web`, and whose pods those of `web` match."""
    other = cloneset("rival", replicas=2)
    other["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
    return other


async def test_a_selector_that_matches_pods_of_other_owners(stage: Stage) -> None:
    """Two CloneSets with one selector: each has its own pods, none is taken from the other; a condition says so"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    mine = {pod.uid for pod in await stage.pods()}
    # when
    await stage.create(rival())

    async def both() -> bool:
        return len(await stage.pods()) == 4 and all(pod.is_serving for pod in await stage.pods())

    await stage.until(both)
    # then
    owners = {pod.uid: pod.controller.name for pod in await stage.pods() if pod.controller}
    assert {uid for uid, name in owners.items() if name == "web"} == mine
    assert sorted(owners.values()) == ["rival", "rival", "web", "web"]
    assert (await stage.status())["replicas"] == 2
    await says(stage, "SelectorOverlap", "OtherOwners", "spec.selector", "CloneSet web", name="rival")
    await reported(stage, "SelectorOverlap", "CloneSet web")


async def test_a_neighbour_with_its_selector_does_not_change_a_cloneset_at_rest(stage: Stage) -> None:
    """A client that read it before updates it without a conflict: the condition comes with the next status, or a
    minute later"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    read = await stage.get("web")
    # when
    await stage.create(rival())

    async def is_up() -> bool:
        return (await stage.status("rival")).get("availableReplicas") == 2

    await stage.until(is_up)
    await asyncio.sleep(5)
    # then
    now = await stage.get("web")
    assert now["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]
    await reported(stage, "SelectorOverlap", "CloneSet web")
    # and when it is scaled, its status says so at once
    await stage.scale("web", 3)
    await says(stage, "SelectorOverlap", "OtherOwners", "spec.selector", "CloneSet rival")


async def test_the_overlap_condition_ends_when_the_pods_of_other_owners_are_deleted(stage: Stage) -> None:
    # given two CloneSets with one selector
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    await stage.create(rival())
    await says(stage, "SelectorOverlap", "OtherOwners", "spec.selector", "CloneSet web", name="rival")
    # when one of them goes
    await stage.delete("web")
    # then
    await stage.until(lambda: quiet_now(stage, "rival"))
    assert (await stage.status("rival"))["readyReplicas"] == 2


class Quota:
    """A limit of the number of pods: a ResourceQuota on a real API server. The sandbox has no quotas, so there the
    manager's creations are counted and refused with the same message."""

    def __init__(self, stage: Stage, *, pods: int, is_real: bool) -> None:
        self.stage = stage
        self.pods = pods
        self.transport = FaultyTransport(stage.manager_transport())
        self._is_real = is_real
        self._created = 0
        if not is_real:
            self.transport.on(posts("/pods"), self._refused)

    async def set(self, pods: int) -> None:
        self.pods = pods
        if not self._is_real:
            return
        body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}}
        try:
            await self.stage.client.create(RESOURCE_QUOTAS, self.stage.namespace, body)
        except AlreadyExistsError:
            await self.stage.client.patch(
                RESOURCE_QUOTAS, self.stage.namespace, "few", body, patch_type=PatchType.MERGE
            )
        await self.stage.until(self._is_counted, what="the quota is counted")

    async def _is_counted(self) -> bool:
        doc = decode(await self.stage.client.get(RESOURCE_QUOTAS, self.stage.namespace, "few"))
        return bool((doc.get("status") or {}).get("hard") == {"pods": str(self.pods)})

    def _refused(self, request: Request) -> Answer | None:
        if self._created < self.pods:
            self._created += 1
            return None
        name = request.to_document["metadata"]["name"]
        return Answer(403, reason="Forbidden", message=f'pods "{name}" is forbidden: exceeded quota: few')


async def test_a_quota_that_is_used_up(stage: Stage, pytestconfig: pytest.Config) -> None:
    # given
    quota = Quota(stage, pods=2, is_real=pytestconfig.getoption("--cluster") == "real")
    await quota.set(2)
    await stage.start_manager(quota.transport)
    # when
    await stage.create(cloneset(replicas=4))
    # then two pods serve, and it is said why there are no more
    await says(stage, "FailedScale", "Quota", "exceeded quota", "; raise the ResourceQuota")
    events = await stage.until(lambda: stage.events("FailedCreate"))
    assert "exceeded quota" in events[0]["message"]
    await stage.until(lambda: has_available(stage, 2), what="two pods are available")
    before = {pod.uid for pod in await stage.pods()}
    # when
    await quota.set(4)
    # then
    await stage.settled(replicas=4)
    await quiet(stage)
    assert before <= {pod.uid for pod in await stage.pods()}


async def has_available(stage: Stage, count: int) -> bool:
    return bool((await stage.status()).get("availableReplicas") == count)


async def test_pods_that_fit_on_no_node(stage: Stage) -> None:
    # given
    await with_neighbour(stage)
    body = cloneset(replicas=2)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/disk": "fast"}
    await stage.create(body)
    # then
    await says(stage, "Waiting", "Unschedulable", "cannot be scheduled", "; label nodes, or add nodes")
    await reported(stage, "Unschedulable", "; label nodes, or add nodes")
    await neighbour_works(stage)
    # when
    await stage.merge("web", {"spec": {"template": {"spec": {"nodeSelector": None}}}})
    # then
    await stage.settled(replicas=2)
    await quiet(stage)


async def test_an_image_that_cannot_be_pulled(stage: Stage) -> None:
    # given
    await with_neighbour(stage)
    await stage.create(cloneset(replicas=2, image="shop/broken:1"))
    # then
    await says(stage, "Waiting", "ImagePull", "shop/broken:1", "; correct the image")
    await reported(stage, "ImagePull", "shop/broken:1")
    await neighbour_works(stage)
    # when
    await stage.set_image("web", "nginx:1")
    # then
    await stage.settled(replicas=2)
    await quiet(stage)


@pytest.mark.real
async def test_claims_that_cannot_be_bound(stage: Stage) -> None:
    """The sandbox's scheduler does not look at claims; a real one names them"""
    # given
    await with_neighbour(stage)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "unprovisioned-class",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await stage.create(cloneset(replicas=1, volumeClaimTemplates=[claim]))
    # then
    await says(stage, "Waiting", "UnboundClaims", "PersistentVolumeClaim", "provide a volume")
    await reported(stage, "UnboundClaims", "PersistentVolumeClaim")
    await neighbour_works(stage)
    # when the claim templates go
    await stage.merge("web", {"spec": {"volumeClaimTemplates": None}})
    (pod,) = await stage.pods()
    await stage.delete(pod.name, resource=PODS)
    # then
    await stage.settled(replicas=1)
    await quiet(stage)


async def test_a_rollout_held_by_the_spec_names_the_field(stage: Stage) -> None:
    """paused, a partition, OnDelete: each is named with the field that lets it go on"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3, updateStrategy=rolling(maxUnavailable=1, partition=2)))
    await stage.settled(replicas=3)
    await quiet(stage)
    # when
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=3, updated=1)
    # then
    await says(stage, "Waiting", "Partition", "partition")
    await stage.merge(
        "web", {"spec": {"updateStrategy": {"rollingUpdate": {"paused": True, "partition": 0}}}}
    )
    await says(stage, "Waiting", "Paused", "paused to false")
    await stage.merge("web", {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    await says(stage, "Waiting", "OnDelete", "delete the pods")
    # when
    await stage.merge("web", {"spec": {"updateStrategy": rolling(maxUnavailable=1)}})
    # then
    await stage.settled(replicas=3)
    await quiet(stage)


# ── objects of other kinds ───────────────────────────────────────────────────


async def serve(stage: Stage, resource: Any) -> None:
    """Make the API server serve a kind whose controller is not there, if it does not yet."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [version],
        },
    }
    try:
        await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
    except AlreadyExistsError:
        return

    async def is_served() -> bool:
        result = decode(await stage.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", crd["metadata"]["name"]))
        conditions = (result.get("status") or {}).get("conditions") or []
        return any(
            condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
        )

    await stage.until(is_served)


async def test_images_are_pulled_ahead_of_a_rollout_in_place(stage: Stage) -> None:
    """cloneset case 92: jobs for the new revision, gone when the rollout is over"""
    # given
    await serve(stage, IMAGE_PULL_JOBS)
    await stage.start_manager(settings=ManagerSettings(gates=Gates.of(PreDownloadImageForInPlaceUpdate=True)))
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1, partition=3)
    await stage.create(cloneset(replicas=4, updateStrategy=strategy))
    await stage.settled(replicas=4)
    # when
    await stage.set_image("web", "nginx:2")
    # then
    (job,) = await stage.until(lambda: stage.stored(IMAGE_PULL_JOBS))
    assert job["spec"]["image"] == "nginx:2"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CloneSet"
    update = (await stage.settled(replicas=4, updated=1))["status"]["updateRevision"]
    assert job["metadata"]["name"] == f"{update}-main"
    stored = await stage.get(update, resource=CONTROLLER_REVISIONS)
    assert stored["metadata"]["labels"][keys.PRE_DOWNLOAD_CREATED_LABEL] == "true"
    assert len(await stage.until(lambda: stage.events("CreatedImagePullJob"))) == 1
    # when
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await stage.settled(replicas=4)

    async def all_gone() -> bool:
        return not await stage.stored(IMAGE_PULL_JOBS)

    # then
    await stage.until(all_gone)


async def test_a_pod_unavailable_budget_is_respected_and_spent(stage: Stage) -> None:
    """cloneset case 77"""
    # given four pods under a budget that lets one go
    await serve(stage, POD_UNAVAILABLE_BUDGETS)
    await stage.start_manager(settings=ManagerSettings(gates=Gates.of(PodUnavailableBudgetUpdateGate=True)))
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable="100%")
    body = cloneset(replicas=4, updateStrategy=strategy)
    body["spec"]["template"]["metadata"]["annotations"] = {keys.RELATED_PUB_ANNOTATION: "pub"}
    await stage.create(body)
    await stage.settled(replicas=4)
    await stage.create(
        {
            "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
            "kind": POD_UNAVAILABLE_BUDGETS.kind,
            "metadata": {"name": "pub"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        },
        resource=POD_UNAVAILABLE_BUDGETS,
    )
    await allow(stage, 1)
    # when
    await stage.set_image("web", "nginx:2")
    # then one pod is updated, and the budget is spent
    await stage.settled(replicas=4, updated=1)
    status = (await stage.get("pub", resource=POD_UNAVAILABLE_BUDGETS))["status"]
    assert status["unavailableAllowed"] == 0
    assert len(status["unavailablePods"]) == 1
    await says(stage, "Waiting", "DisruptionBudget", "PodUnavailableBudget pub allows no more")
    conditions = (await stage.status())["conditions"]
    assert not any(condition["type"] == "FailedUpdate" for condition in conditions)
    # when it allows the rest
    await allow(stage, 3)
    # then
    await stage.settled(replicas=4)


async def allow(stage: Stage, count: int) -> None:
    """Write the status of the budget as its controller does."""
    status = {"desiredAvailable": 3, "unavailableAllowed": count, "currentAvailable": 4, "totalReplicas": 4}
    await stage.merge(
        "pub",
        {"status": {**status, "unavailablePods": None}},
        resource=POD_UNAVAILABLE_BUDGETS,
        subresource="status",
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]},
        {"envFrom": [{"configMapRef": {"name": "db"}}]},
    ],
    ids=["a key of a Secret", "a whole ConfigMap"],
)
async def test_a_missing_object_that_containers_reference_is_named(
    stage: Stage, environment: dict[str, Any]
) -> None:
    await with_neighbour(stage)
    doc = cloneset(replicas=2)
    doc["spec"]["template"]["spec"]["containers"][0] |= environment
    await stage.create(doc)
    await says(stage, "Waiting", "ContainerFails", '"db" not found', "create what is missing")
    await neighbour_works(stage)
