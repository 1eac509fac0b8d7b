"""Equal objects: results for one are used again for the next, and only for equal ones."""

from typing import Any

from support.api import PODS, STRATEGIC, Api, pod


def _spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "web:1", "ports": [{"containerPort": 80}]}], **more}


async def test_each_of_two_identical_pods_gets_a_warning_of_unknown_fields() -> None:
    # given
    api = Api.fresh()
    spec = _spec()
    spec["containers"][0]["nonsense"] = {"a": 1}
    # when
    replies = [await api.post(PODS, {**pod(name), "spec": spec}) for name in ("a", "b")]
    # then
    warnings = [reply.headers["warning"] for reply in replies]
    assert warnings == ['299 - "unknown field \\"spec.containers[0].nonsense\\""'] * 2


async def test_a_change_of_one_pod_does_not_reach_the_next_identical_one() -> None:
    # given a pod whose container was changed after it was read
    api = Api.fresh()
    await api.post(PODS, {**pod("a"), "spec": _spec()})
    image = {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    await api.patch(f"{PODS}/a", image, STRATEGIC)
    # when another pod is created from the same spec
    second = await api.post(PODS, {**pod("b"), "spec": _spec()})
    # then it has the image of its own spec
    assert second.doc["spec"]["containers"][0]["image"] == "web:1"


async def test_a_validated_spec_does_not_validate_another_host_name() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, {**pod("a"), "spec": _spec(hostname="fine")})
    # when
    reply = await api.post(PODS, {**pod("b"), "spec": _spec(hostname="Not Fine")})
    # then
    assert (reply.status, [cause["field"] for cause in reply.causes]) == (422, ["spec.hostname"])


async def test_claims_that_a_pod_makes_are_checked_by_its_own_name() -> None:
    # given a pod that creates the claim a-data, and uses another claim with a name that pod b would create
    api = Api.fresh()
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    own = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    spec = _spec(volumes=[own, {"name": "other", "persistentVolumeClaim": {"claimName": "b-data"}}])
    # when two pods with these names have the same spec
    statuses = [(await api.post(PODS, {**pod(name), "spec": spec})).status for name in ("a", "b")]
    # then both volumes of the second pod would have the same claim
    assert statuses == [201, 422]


async def test_managed_fields_of_identical_pods_list_the_fields_of_each() -> None:
    # given two pods with the same containers, and a third with another variable
    api = Api.fresh()
    for name in ("a", "b"):
        await api.post(PODS, {**pod(name), "spec": _spec()})
    spec = _spec()
    spec["containers"][0]["env"] = [{"name": "X", "value": "1"}]
    await api.post(PODS, {**pod("c"), "spec": spec})
    # when
    owned = [
        (await api.get(f"{PODS}/{name}")).meta["managedFields"][0]["fieldsV1"]["f:spec"] for name in "abc"
    ]
    # then
    main = 'k:{"name":"main"}'
    assert owned[0] == owned[1]
    assert set(owned[2]["f:containers"][main]) - set(owned[0]["f:containers"][main]) == {"f:env"}
