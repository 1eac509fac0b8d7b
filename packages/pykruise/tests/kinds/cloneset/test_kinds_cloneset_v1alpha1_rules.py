"""Rules for clients of v1alpha1 only: rules 10, 11a and 20, and the fields that InPlaceOnly allows to change."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.cloneset.v1alpha1_rules import PodLookup, field_of, make_spoke_rules
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause, KubeError
from support.reviews import request

OLD = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")
PODS_TO_DELETE = "spec.scaleStrategy.podsToDelete"


def flat(kind: str = "ReCreate", *, pods_to_delete: list[str] | None = None, **spec: Any) -> Document:
    """The CloneSet `web` in v1alpha1, with defaults."""
    containers = [{"name": name, "image": f"{name}:1"} for name in ("main", "side")]
    return {
        "apiVersion": OLD.api_version,
        "kind": OLD.kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-of-web"},
        "spec": {
            "replicas": 3,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
            "updateStrategy": {"type": kind},
            **({} if pods_to_delete is None else {"scaleStrategy": {"podsToDelete": pods_to_delete}}),
            **spec,
        },
    }


class Pods:
    """The pods of a namespace, and the pods that a review has read."""

    def __init__(self, *pods: Document) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, namespace: str, name: str) -> Document | None:
        self.asked.append((namespace, name))
        return self.pods.get(name)


def pod(name: str, *, owner: str | None = "uid-of-web", **metadata: Any) -> Document:
    owners = [] if owner is None else [{"kind": "CloneSet", "name": "web", "uid": owner, "controller": True}]
    return {"metadata": {"name": name, "ownerReferences": owners, **metadata}}


async def causes(
    doc: Mapping[str, Any], *, old: Mapping[str, Any] | None = None, pods: PodLookup | None = None
) -> list[Cause]:
    return [*await make_spoke_rules(pods).errors(request(OLD, doc, old=old))]


async def problems_of(doc: Document, **fields: Any) -> list[tuple[str, str]]:
    """Fields and messages of the errors."""
    return [(cause.field, cause.message) for cause in await causes(doc, **fields)]


# Rule 10: pods to delete


async def test_pods_listed_twice_are_not_read() -> None:
    """cloneset case 9 (the duplicate itself is an error of both versions)"""
    pods = Pods()
    assert await causes(flat(pods_to_delete=["p0", "p0"]), old=flat(), pods=pods) == []
    assert pods.asked == []


@pytest.mark.parametrize("listed", [[{"name": "p0"}, 7], "p0"])
async def test_a_list_that_holds_no_names_is_accepted_for_its_readers_to_judge(listed: Any) -> None:
    result = await problems_of(flat(pods_to_delete=listed), old=flat(), pods=Pods())
    assert result == []


async def test_a_deleted_pod_may_stay_in_the_list() -> None:
    """cloneset case 10"""
    # given
    pods, old = Pods(pod("p1")), flat(pods_to_delete=["gone"])
    # then
    assert await causes(flat(pods_to_delete=["gone", "p1"]), old=old, pods=pods) == []
    assert pods.asked == [("shop", "p1")]


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        (pod("p0", owner=None), "the pod does not belong to this CloneSet"),
        (pod("p0", owner="uid-of-another"), "the pod does not belong to this CloneSet"),
        ({"metadata": {"name": "p0"}}, "the pod does not belong to this CloneSet"),
        (pod("p0", deletionTimestamp="2026-01-31T12:00:00Z"), "the pod is already being deleted"),
        (pod("other"), "the pod does not exist"),
    ],
)
async def test_a_pod_that_the_set_cannot_delete_is_refused(of: Document, problem: str) -> None:
    """cloneset case 11"""
    result = await problems_of(flat(pods_to_delete=["p0"]), old=flat(), pods=Pods(of))
    assert result == [(PODS_TO_DELETE, f'Invalid value: "p0": {problem}')]


async def test_every_pod_that_cannot_be_deleted_is_named() -> None:
    result = await problems_of(flat(pods_to_delete=["p0", "p1", "p2"]), old=flat(), pods=Pods(pod("p1")))
    assert [message.split('"')[1] for _, message in result] == ["p0", "p2"]


async def test_a_new_set_has_no_pods_to_delete() -> None:
    """cloneset rule 10: always refused on creation, with and without lookups"""
    for pods in (None, Pods(pod("p0"))):
        result = await problems_of(flat(pods_to_delete=["p0"]), pods=pods)
        assert result == [(PODS_TO_DELETE, 'Invalid value: "p0": a new CloneSet has no pods')]


async def test_a_pod_that_cannot_be_read_is_refused_with_the_reason() -> None:
    async def broken(namespace: str, name: str) -> Document | None:
        raise KubeError("the API server is away")

    result = await problems_of(flat(pods_to_delete=["p0"]), old=flat(), pods=broken)
    assert result == [
        (PODS_TO_DELETE, 'Invalid value: "p0": the pod cannot be looked up: the API server is away')
    ]
    # and where pods cannot be read, an update may name it
    assert await causes(flat(pods_to_delete=["p0"]), old=flat()) == []


# Rule 11a: types


@pytest.mark.parametrize("kind", ["ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete", ""])
async def test_every_type_of_the_api_is_allowed(kind: str) -> None:
    """cloneset rule 11a; OnDelete: 9.2.1"""
    assert await causes(flat(kind)) == []


@pytest.mark.parametrize("kind", ["Recreate", "RollingUpdate"])
async def test_an_unknown_type_is_refused(kind: str) -> None:
    """cloneset rule 11a"""
    assert await problems_of(flat(kind)) == [
        (
            "spec.updateStrategy.type",
            f'Invalid value: "{kind}": must be one of ReCreate, InPlaceIfPossible, InPlaceOnly, OnDelete',
        )
    ]


# Rule 20: the deadline


@pytest.mark.parametrize(
    ("deadline_s", "ready_s", "problems"),
    [
        (10, 10, ["must be greater than minReadySeconds"]),
        (0, None, ["must be greater than minReadySeconds"]),
        (-1, 0, ["must be greater than or equal to 0", "must be greater than minReadySeconds"]),
        (11, 10, []),
        (1, None, []),
        (2147483647, 2147483647, []),
        (None, 10, []),
    ],
)
async def test_a_deadline_that_can_only_be_missed_is_refused(
    deadline_s: int | None, ready_s: int | None, problems: list[str]
) -> None:
    """cloneset case 16"""
    result = await problems_of(flat(progressDeadlineSeconds=deadline_s, minReadySeconds=ready_s))
    field = "spec.progressDeadlineSeconds"
    assert result == [(field, f"Invalid value: {deadline_s}: {problem}") for problem in problems]


async def test_a_stored_type_and_deadline_do_not_block_other_changes() -> None:
    """Clients of v1beta1 can store such seconds."""
    stored = flat("Recreate", progressDeadlineSeconds=5, minReadySeconds=10)
    assert [cause.field for cause in await causes(stored)] == [
        "spec.updateStrategy.type",
        "spec.progressDeadlineSeconds",
    ]
    scaled = copy.deepcopy(stored)
    scaled["spec"]["replicas"] = 7
    assert await causes(scaled, old=stored) == []
    scaled["spec"]["minReadySeconds"] = 8
    assert [cause.field for cause in await causes(scaled, old=stored)] == ["spec.progressDeadlineSeconds"]


# Section 5.2: InPlaceOnly


def changed(doc: Document, **containers: Any) -> Document:
    """The document with these fields in its first container."""
    result = copy.deepcopy(doc)
    result["spec"]["template"]["spec"]["containers"][0] |= containers
    return result


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"env": [{"name": "A", "value": "b"}]}, "containers.0.env"),
        ({"name": "other"}, "containers.0.name"),
        ({"image": "main:2", "command": ["run"]}, "containers.0.command"),
    ],
)
async def test_in_place_only_allows_only_images_to_change(fields: Document, place: str) -> None:
    """cloneset case 15"""
    old = flat("InPlaceOnly")
    (cause,) = await causes(changed(old, **fields), old=old)
    assert (cause.reason, cause.field) == ("FieldValueForbidden", "spec")
    assert cause.message == (
        "Forbidden: only images may change in spec.template.spec under InPlaceOnly, "
        f"not spec.template.spec.{place}"
    )


async def test_in_place_only_allows_images_and_template_metadata_to_change() -> None:
    """cloneset case 15"""
    old = flat("InPlaceOnly")
    new = changed(old, image="main:2")
    new["spec"]["template"]["spec"]["containers"][1]["image"] = "side:2"
    new["spec"]["template"]["metadata"]["labels"]["track"] = "canary"
    assert await causes(new, old=old) == []


async def test_in_place_only_compares_templates_by_meaning() -> None:
    """A webhook of OpenKruise writes empty `resources`, defaults and canonical quantities into stored templates, and
    clients do not.
    """
    requests = {"cpu": "1000m"}
    new = changed(flat("InPlaceOnly"), image="main:2", resources={"requests": requests}, env=[])
    written = {"resources": {"requests": {"cpu": "1"}}, "terminationMessagePolicy": "File"}
    old = changed(flat("InPlaceOnly"), imagePullPolicy="IfNotPresent", **written)
    old["spec"]["template"]["metadata"]["creationTimestamp"] = None
    old["spec"]["template"]["spec"] |= {"securityContext": {}, "restartPolicy": "Always"}
    old["spec"]["template"]["spec"]["containers"][1]["resources"] = {}
    assert await causes(new, old=old) == []
    requests["cpu"] = "1001m"
    (cause,) = await causes(new, old=old)
    assert "spec.template.spec.containers.0.resources.requests.cpu" in cause.message


@pytest.mark.parametrize("damage", [{"containers": "none"}, {"containers": [7]}, {}, None, "text"])
async def test_a_template_that_is_no_pod_template_is_compared_as_it_is_written(damage: Any) -> None:
    old = flat("InPlaceOnly")
    new = copy.deepcopy(old)
    new["spec"]["template"]["spec"] = damage
    assert await causes(copy.deepcopy(new), old=new) == []
    (cause,) = await causes(new, old=old)
    assert cause.field == "spec"


def with_resources(doc: Document, **requests: str) -> Document:
    return changed(doc, resources={"requests": requests})


@pytest.mark.parametrize(
    ("after", "is_allowed"),
    [
        ({"cpu": "200m", "memory": "2Gi"}, True),
        ({"cpu": "100m"}, False),
        ({"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"}, False),
    ],
)
async def test_in_place_only_allows_cpu_and_memory_to_change_with_the_gate(
    after: dict[str, str], is_allowed: bool
) -> None:
    """cloneset 9.2.18: OpenKruise refuses them with any gate"""
    old = with_resources(flat("InPlaceOnly"), cpu="100m", memory="1Gi")
    write = request(OLD, with_resources(old, **after), old=old)
    off, on = make_spoke_rules(), make_spoke_rules(resources_in_place=True)
    assert [cause.field for cause in await off.errors(write)] == ["spec"]
    result = [cause.message for cause in await on.errors(write)]
    start = "Forbidden: only images, cpu and memory may change in spec.template.spec under InPlaceOnly"
    assert (result == []) if is_allowed else result[0].startswith(start)


async def test_the_type_that_is_written_counts_and_not_the_one_before() -> None:
    old = flat("InPlaceOnly")
    env = [{"name": "A", "value": "b"}]
    assert await causes(changed(flat("InPlaceIfPossible"), env=env), old=old) == []
    (cause,) = await causes(changed(old, env=env), old=flat("InPlaceIfPossible"))
    assert cause.field == "spec"


# Parts that are not reviewed


async def test_deletions_subresources_and_what_completes_a_deletion_pass() -> None:
    bad = flat("Unknown")
    rules = make_spoke_rules()
    assert await rules.errors(request(OLD, old=bad)) == ()
    assert await rules.errors(request(OLD, bad, old=bad, subresource="status")) == ()
    leaving = copy.deepcopy(bad)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert await rules.errors(request(OLD, bad, old=leaving)) == ()


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("spec.replicas", "spec.replicas"),
        ("spec.updateStrategy.rollingUpdate.maxSurge", "spec.updateStrategy.maxSurge"),
        ("spec.updateStrategy.rollingUpdate.podUpdatePolicy", "spec.updateStrategy.type"),
        ("spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism", None),
        ("spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds", None),
    ],
)
def test_fields_have_their_names_of_v1alpha1(field: str, name: str | None) -> None:
    """cloneset rules 12 to 22: rules 21 and 22 are of v1beta1 alone"""
    assert field_of(field) == name
