"""Scale, binding, eviction, status of pods: subresources with endpoints of their own."""

from typing import Any

import pytest

from support.api import CRDS, MERGE, PODS, STRATEGIC, WIDGETS, Api, Document, pod, widget, widget_crd

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def deployment(name: str = "d", replicas: int = 2) -> Document:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}
    template["metadata"]["labels"]["x"] = "1"  # type: ignore[index]  # a plain document
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


async def with_deployment(replicas: int = 2) -> Api:
    api = Api.fresh()
    reply = await api.post(DEPLOYMENTS, deployment(replicas=replicas))
    assert reply.status == 201, reply.doc
    return api


# --- scale


async def test_the_scale_of_a_deployment_shows_replicas_and_selector() -> None:
    # given
    api = await with_deployment()
    reply = await api.get(f"{DEPLOYMENTS}/d")
    # when
    scale = await api.get(f"{DEPLOYMENTS}/d/scale")
    # then
    members = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale.doc == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {member: reply.meta[member] for member in members},
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "a=b,x"},
    }


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_scaling_is_a_change_of_the_spec(kind: str) -> None:
    # given
    api = await with_deployment()
    # when
    scale = await api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}, kind)
    # then
    reply = await api.get(f"{DEPLOYMENTS}/d")
    assert scale.doc["spec"] == {"replicas": 5}
    assert (reply.doc["spec"]["replicas"], reply.meta["generation"]) == (5, 2)
    assert scale.revision == reply.revision


async def test_scaling_to_zero_leaves_the_replicas_out_of_the_scale() -> None:
    # given
    api = await with_deployment()
    # when
    scale = await api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 0}})
    # then
    assert scale.doc["spec"] == {}
    assert (await api.get(f"{DEPLOYMENTS}/d")).doc["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("scale", "status", "text"),
    [
        (
            {"spec": {"replicas": -1}},
            422,
            'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater '
            "than or equal to 0",
        ),
        (
            {"metadata": {"name": "e"}},
            400,
            "the name of the object (e) does not match the name on the URL (d)",
        ),
        ({"metadata": {"name": "d", "resourceVersion": "1"}}, 409, "the object has been modified"),
        ({"metadata": {"name": "d", "uid": "other"}}, 409, "Precondition failed: UID in precondition: other"),
        ({"kind": "Deployment"}, 400, "cannot be handled as a Scale"),
        ({"apiVersion": "apps/v1"}, 400, "the API version in the data (apps/v1) does not match"),
    ],
)
async def test_a_scale_that_does_not_fit_is_refused(scale: Document, status: int, text: str) -> None:
    # given
    api = await with_deployment()
    # when
    reply = await api.put(
        f"{DEPLOYMENTS}/d/scale", {"metadata": {"name": "d"}, "spec": {"replicas": 3}, **scale}
    )
    # then
    assert reply.status == status, reply.doc
    assert text in reply.message
    assert (await api.get(f"{DEPLOYMENTS}/d")).doc["spec"]["replicas"] == 2


async def test_the_scale_of_a_missing_object_is_not_found() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(f"{DEPLOYMENTS}/nope/scale")
    # then
    assert (reply.status, reply.reason) == (404, "NotFound")
    assert reply.message.endswith('"nope" not found')


async def test_scale_is_neither_created_nor_deleted() -> None:
    # given
    api = await with_deployment()
    # when
    replies = [await api.delete(f"{DEPLOYMENTS}/d/scale"), await api.post(f"{DEPLOYMENTS}/d/scale", {})]
    # then
    assert [reply.status for reply in replies] == [405, 405]


async def test_custom_resources_scale_by_the_paths_of_their_crd() -> None:
    # given
    api = Api.fresh()
    await api.post(CRDS, widget_crd())
    await api.post(WIDGETS, widget("w"))
    await api.patch(f"{WIDGETS}/w/status", {"status": {"replicas": 1, "selector": "app=w"}})
    # when
    before = await api.get(f"{WIDGETS}/w/scale")
    after = await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 4}})
    negative = await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": -4}})
    # then
    assert (before.doc["spec"], before.doc["status"]) == (
        {"replicas": 1},
        {"replicas": 1, "selector": "app=w"},
    )
    assert after.doc["spec"] == {"replicas": 4}
    assert (await api.get(f"{WIDGETS}/w")).meta["generation"] == 2
    assert negative.causes[-1] == {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: -4: should be a non-negative integer",
        "field": ".spec.replicas",
    }


async def test_dry_run_scales_nothing() -> None:
    # given
    api = await with_deployment()
    # when
    scale = await api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 9}}, dryRun="All")
    # then
    assert scale.doc["spec"] == {"replicas": 9}
    assert (await api.get(f"{DEPLOYMENTS}/d")).doc["spec"]["replicas"] == 2


# --- binding


async def test_a_binding_assigns_a_pod_and_sets_its_scheduled_condition() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    binding = {
        "metadata": {"name": "a", "annotations": {"why": "room"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    # when
    reply = await api.post(f"{PODS}/a/binding", binding)
    result = await api.get(f"{PODS}/a")
    # then
    assert (reply.status, reply.doc["status"]) == (201, "Success")
    assert result.doc["spec"]["nodeName"] == "n1"
    assert result.meta["annotations"] == {"why": "room"}
    [condition] = result.doc["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"] == "2023-11-14T22:13:20Z"


async def test_the_collection_of_bindings_binds_as_well() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    # when
    reply = await api.post(
        "/api/v1/namespaces/default/bindings", {"metadata": {"name": "a"}, "target": {"name": "n1"}}
    )
    # then
    assert reply.status == 201
    assert (await api.get(f"{PODS}/a")).doc["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("prepare", "binding", "status", "text"),
    [
        (
            "bound",
            {},
            409,
            'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n0"',
        ),
        (
            "deleting",
            {},
            409,
            'Operation cannot be fulfilled on pods/binding "a": pod a is being deleted, cannot be '
            "assigned to a host",
        ),
        ("gated", {}, 409, "pod a has non-empty .spec.schedulingGates"),
        ("plain", {"target": {"kind": "Node"}}, 500, "target.name: Required value"),
        ("plain", {"metadata": {"name": "b"}}, 400, "name in URL does not match name in Binding object"),
        ("plain", {"metadata": {"name": "a", "uid": "other"}}, 409, "Precondition failed"),
        ("missing", {}, 404, 'pods "a" not found'),
    ],
)
async def test_a_pod_that_cannot_be_bound_stays_where_it_is(
    prepare: str, binding: Document, status: int, text: str
) -> None:
    # given
    api = Api.fresh()
    body = pod("a", node="n0" if prepare == "bound" else "", finalizers=["a.b/c"])
    if prepare == "gated":
        body["spec"]["schedulingGates"] = [{"name": "g.io/wait"}]
    if prepare != "missing":
        await api.post(PODS, body)
    if prepare == "deleting":
        await api.delete(f"{PODS}/a")
    before = api.now()
    # when
    reply = await api.post(f"{PODS}/a/binding", {"target": {"kind": "Node", "name": "n1"}, **binding})
    # then
    assert reply.status == status, reply.doc
    assert text in reply.message
    assert api.now() == before


# --- eviction


async def with_running_pod(**budget: Any) -> Api:
    api = Api.fresh()
    await api.post(PODS, pod("a", node="n1", labels={"app": "web"}))
    ready = [{"type": "Ready", "status": "True"}]
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running", "conditions": ready}})
    if budget:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        made = await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        status = {"observedGeneration": made.meta["generation"], "currentHealthy": 1, "desiredHealthy": 1}
        counts = {"expectedPods": 1, "disruptionsAllowed": 0}
        reply = await api.patch(f"{BUDGETS}/b/status", {"status": {**counts, **status, **budget}})
        assert reply.status == 200, reply.doc
    return api


async def test_an_eviction_is_a_deletion_with_its_reason_in_a_condition() -> None:
    # given
    api = await with_running_pod()
    # when
    reply = await api.post(
        f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 5}}
    )
    # then
    result = await api.get(f"{PODS}/a")
    assert (reply.status, reply.doc["status"]) == (201, "Success")
    assert result.meta["deletionGracePeriodSeconds"] == 5
    [condition] = [each for each in result.doc["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert condition["reason"] == "EvictionByEvictionAPI"


async def test_an_exhausted_budget_refuses_an_eviction() -> None:
    # given
    api = await with_running_pod(disruptionsAllowed=0, currentHealthy=1)
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    assert (reply.status, reply.reason) == (429, "TooManyRequests")
    assert reply.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert reply.causes == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/a")).meta


@pytest.mark.parametrize(
    ("reason", "message", "said"),
    [
        ("SyncFailed", "why not", " because it failed sync: why not"),
        ("Other", "why not", " (Other): why not"),
        ("InsufficientPods", "", ""),
    ],
)
async def test_a_budget_with_enough_pods_that_refuses_an_eviction_gives_its_reason(
    reason: str, message: str, said: str
) -> None:
    # given
    at = "2023-11-14T22:13:20Z"
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}
    conditions = [{**condition, "lastTransitionTime": at}]
    api = await with_running_pod(currentHealthy=2, conditions=conditions)
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    (cause,) = reply.causes
    assert cause["message"] == f"The disruption budget b does not allow evicting pods currently{said}"


async def test_an_eviction_spends_its_budget() -> None:
    # given
    api = await with_running_pod(disruptionsAllowed=1, currentHealthy=2)
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    status = (await api.get(f"{BUDGETS}/b")).doc["status"]
    assert reply.status == 201
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"a": "2023-11-14T22:13:20Z"}


async def test_a_budget_without_an_observed_status_answers_to_try_again() -> None:
    # given
    api = await with_running_pod(observedGeneration=0)
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    assert (reply.status, reply.headers["retry-after"]) == (429, "10")


async def test_pods_that_do_not_run_cost_no_budget() -> None:
    # given
    api = await with_running_pod(disruptionsAllowed=0)
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}})
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    assert reply.status == 201
    assert (await api.get(f"{PODS}/a")).status == 404


async def test_dry_run_evicts_no_pod() -> None:
    # given
    api = await with_running_pod(disruptionsAllowed=1, currentHealthy=2)
    before = api.now()
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}}, dryRun="All")
    # then
    assert reply.status == 201
    assert api.now() == before


# --- status, resize and missing objects


async def test_the_status_of_a_pod_takes_labels_but_no_owners_and_no_spec() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    # when
    reply = await api.patch(
        f"{PODS}/a/status",
        {
            "metadata": {"labels": {"x": "y"}, "ownerReferences": [owner]},
            "spec": {"nodeName": "n9"},
            "status": {"phase": "Running"},
        },
        STRATEGIC,
    )
    # then
    assert reply.doc["status"]["phase"] == "Running"
    assert reply.meta["labels"] == {"x": "y"}
    assert "ownerReferences" not in reply.meta
    assert "nodeName" not in reply.doc["spec"]


async def test_a_status_patch_may_test_the_spec() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a", image="nginx:1"))
    set_phase = {"op": "add", "path": "/status/phase", "value": "Running"}
    kind = "application/json-patch+json"
    # when
    right, wrong = [
        await api.patch(
            f"{PODS}/a/status",
            [{"op": "test", "path": "/spec/containers/0/image", "value": image}, set_phase],
            kind,
        )
        for image in ("nginx:1", "nginx:2")
    ]
    # then
    assert (right.status, wrong.status) == (200, 422)


async def test_resources_change_through_resize_only() -> None:
    # given
    api = Api.fresh()
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    await api.post(PODS, body)
    wanted = {"name": "main", "resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}}}
    change = {"spec": {"containers": [wanted]}}
    # when
    main = await api.patch(f"{PODS}/a", change, STRATEGIC)
    resize = await api.patch(f"{PODS}/a/resize", change, STRATEGIC)
    # then
    assert main.status == 422
    assert resize.status == 200, resize.doc
    assert resize.doc["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1500m"}


async def test_ephemeral_containers_are_added_through_their_endpoint() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    change = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}
    # when
    main = await api.patch(f"{PODS}/a", change, STRATEGIC)
    own = await api.patch(f"{PODS}/a/ephemeralcontainers", change, STRATEGIC)
    # then
    assert main.status == 422
    assert own.status == 200, own.doc
    assert [each["name"] for each in own.doc["spec"]["ephemeralContainers"]] == ["debug"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", f"{PODS}/a/exec", 405),
        ("POST", f"{PODS}/a/status", 405),
        ("DELETE", f"{PODS}/a/status", 405),
        ("PUT", PODS, 405),
        ("PATCH", PODS, 405),
        ("POST", f"{PODS}/a", 405),
        ("OPTIONS", PODS, 405),
        ("HEAD", PODS, 405),
        ("GET", f"{PODS}/a/nope", 404),
    ],
)
async def test_an_unsupported_method_or_path_is_refused_with_a_status(
    method: str, path: str, status: int
) -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    # when
    reply = await api.call(method, path)
    # then
    assert reply.status == status
    assert reply.doc["kind"] == "Status"


# --- processes


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
@pytest.mark.parametrize("method", ["get", "post"])
async def test_exec_attach_and_portforward_answer_that_pods_are_simulated(
    subresource: str, method: str
) -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("web"))
    # when
    ask = api.get if method == "get" else (lambda path: api.post(path, {}))
    reply = await ask(f"{PODS}/web/{subresource}")
    # then
    assert (reply.status, reply.doc["reason"]) == (501, "NotImplemented")
    assert "pods of this cluster are simulated" in reply.doc["message"]
    assert (await ask(f"{PODS}/nothing/{subresource}")).status == 404
