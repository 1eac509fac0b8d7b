"""Reviews of ContainerRecreateRequests: the rejections, and the values that are filled in from the pod and its node."""

from typing import Any

import pytest

from pykruise.kinds.containerrecreaterequest.admission import build_mutating_review
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest
from pykruise.kube.documents import Document
from pykruise.plans.review import Lookups

POD_UID, NODE_NAME = "crr.apps.kruise.io/pod-uid", "crr.apps.kruise.io/node-name"
SINCE = "crr.apps.kruise.io/unready-acquired"
ACTIVE = {"crr.apps.kruise.io/active": "true"}
MAIN = {"name": "main"}


def asked(
    doc: Document | None, old: Document | None = None, *, operation: str = "", **parts: Any
) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1",
        operation=operation or ("CREATE" if old is None else "UPDATE"),
        resource=CONTAINER_RECREATE_REQUESTS,
        namespace="shop",
        object=doc,
        old_object=old,
        **parts,
    )


def document(*containers: Document, **spec: Any) -> Document:
    return {
        "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
        "kind": CONTAINER_RECREATE_REQUESTS.kind,
        "metadata": {"name": "again", "namespace": "shop"},
        "spec": {"podName": "web", "containers": list(containers or (MAIN,)), **spec},
    }


def pod(*containers: Document, **parts: Any) -> Document:
    """A running pod with these containers."""
    result = containers or (MAIN,)
    return {
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", **parts.pop("metadata", {})},
        "spec": {"nodeName": "n1", "containers": list(result), **parts.pop("spec", {})},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": item["name"], "containerID": f"containerd://{item['name']}", "restartCount": 2}
                for item in result
            ],
            **parts.pop("status", {}),
        },
    }


def cluster(the_pod: Document | None, node: Document | None) -> Lookups:
    """A cluster with at most one pod and one node."""

    async def pods(namespace: str, name: str) -> Document | None:
        assert (namespace, name) == ("shop", "web")
        return the_pod

    async def nodes(name: str) -> Document | None:
        assert name == "n1"
        return node

    return Lookups(pods=pods, nodes=nodes)


NODE: Document = {"metadata": {"name": "n1"}}


async def review(
    doc: Document, the_pod: Document | None = None, *, node: Document | None = NODE
) -> AdmissionAnswer:
    return await build_mutating_review(cluster(the_pod, node))(asked(doc))


async def problems(doc: Document, the_pod: Document | None = None, **around: Any) -> list[tuple[str, str]]:
    """Fields with an error, and the reason of each."""
    refusal = (await review(doc, the_pod, **around)).refusal
    assert refusal is not None
    assert refusal.code == 422
    assert refusal.details is not None
    assert refusal.details.name == "again"
    return [(cause.field, cause.reason) for cause in refusal.details.causes]


async def stored(doc: Document, the_pod: Document, **around: Any) -> Document:
    answer = await review(doc, the_pod, **around)
    assert answer.refusal is None
    assert answer.object is not None
    return answer.object


# Values that are filled in


async def test_a_request_gets_the_facts_of_its_pod_that_its_agent_needs() -> None:
    """containers case 1"""
    # given
    given = document(activeDeadlineSeconds=3)
    # when
    result = await stored(given, pod(spec={"terminationGracePeriodSeconds": 0}))
    # then
    assert result["metadata"] == {
        "name": "again",
        "namespace": "shop",
        "labels": {**ACTIVE, POD_UID: "uid-web", NODE_NAME: "n1"},
    }
    assert result["spec"] == {
        "podName": "web",
        "containers": [
            {"name": "main", "statusContext": {"containerID": "containerd://main", "restartCount": 2}}
        ],
        "activeDeadlineSeconds": 3,
        "strategy": {"failurePolicy": "Fail", "terminationGracePeriodSeconds": 0},
    }
    # and the given document is unchanged
    assert given == document(activeDeadlineSeconds=3)


@pytest.mark.parametrize(
    ("probes", "deadline_s", "count"),
    [
        ({"readinessProbe": {"initialDelaySeconds": 45}}, 45, 1),
        ({"readinessProbe": {"initialDelaySeconds": 45}}, 46, 0),
        ({"readinessProbe": {"initialDelaySeconds": 5}, "startupProbe": {"initialDelaySeconds": 60}}, 45, 1),
        ({"readinessProbe": {}}, 3, 0),
        ({}, 3, 0),
        ({"readinessProbe": {"initialDelaySeconds": 45}}, None, 0),
    ],
)
async def test_a_deadline_before_the_first_probe_gets_a_warning(
    probes: Document, deadline_s: int | None, count: int
) -> None:
    answer = await review(document(activeDeadlineSeconds=deadline_s), pod({**MAIN, **probes}))
    assert answer.refusal is None
    assert len(answer.warnings) == count


async def test_set_fields_are_kept_and_labels_that_differ_from_the_pods_are_replaced() -> None:
    given = document(
        strategy={
            "failurePolicy": "Ignore",
            "terminationGracePeriodSeconds": 0,
            "unreadyGracePeriodSeconds": 0,
            "minStartedSeconds": 0,
            "orderedRecreate": True,
        }
    )
    given["metadata"]["labels"] = {"team": "a", POD_UID: "other", NODE_NAME: "other"}
    result = await stored(given, pod(spec={"terminationGracePeriodSeconds": 30}))
    assert result["spec"]["strategy"] == given["spec"]["strategy"]
    assert result["metadata"]["labels"] == {"team": "a", **ACTIVE, POD_UID: "uid-web", NODE_NAME: "n1"}


@pytest.mark.parametrize("strategy", [None, {}, {"failurePolicy": ""}, {"failurePolicy": None}])
async def test_a_pod_without_settings_has_no_grace_and_a_restart_count_of_zero(strategy: Any) -> None:
    the_pod = pod()
    del the_pod["status"]["containerStatuses"][0]["restartCount"]
    result = await stored(document(strategy=strategy), the_pod)
    assert result["spec"]["strategy"] == {"failurePolicy": "Fail"}
    assert result["spec"]["containers"][0]["statusContext"]["restartCount"] == 0


@pytest.mark.parametrize(
    ("labels", "copied"),
    [
        ({"type": "virtual-kubelet", "a": "b"}, {"type": "virtual-kubelet"}),
        ({"type": "metal"}, {}),
        (None, {}),
    ],
)
async def test_the_label_of_a_virtual_node_is_copied(labels: Any, copied: dict[str, str]) -> None:
    result = await stored(document(), pod(), node={"metadata": {"name": "n1", "labels": labels}})
    assert result["metadata"]["labels"] == {**ACTIVE, POD_UID: "uid-web", NODE_NAME: "n1", **copied}


PORTS = [{"name": "http", "containerPort": 80}]
GET = {"path": "/bye", "port": "http"}
COMMAND = {"command": ["bye"]}


@pytest.mark.parametrize(
    ("container", "copied"),
    [
        (
            {"ports": PORTS, "lifecycle": {"preStop": {"httpGet": GET}}},
            {"preStop": {"httpGet": GET}, "ports": PORTS},
        ),
        ({"ports": [], "lifecycle": {"preStop": {"httpGet": GET}}}, {"preStop": {"httpGet": GET}}),
        ({"lifecycle": {"preStop": {"httpGet": GET}}}, {"preStop": {"httpGet": GET}}),
        # ports are copied only for the port names in an httpGet
        ({"ports": PORTS, "lifecycle": {"preStop": {"exec": COMMAND}}}, {"preStop": {"exec": COMMAND}}),
        ({"lifecycle": {"preStop": {"tcpSocket": {"port": 1}}}}, {"preStop": {"tcpSocket": {"port": 1}}}),
        # an action that agents cannot carry out is not copied
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, {}),
        ({"lifecycle": {"preStop": {"exec": None, "sleep": {"seconds": 1}}}}, {}),
        ({"ports": PORTS, "lifecycle": {"postStart": {"exec": COMMAND}}}, {}),
        ({"lifecycle": None}, {}),
    ],
)
async def test_the_stop_hook_of_a_container_is_copied(container: Document, copied: Document) -> None:
    result = await stored(document(), pod({"name": "main", **container}))
    (target,) = result["spec"]["containers"]
    assert {key: value for key, value in target.items() if key not in ("name", "statusContext")} == copied


@pytest.mark.parametrize(
    ("get", "field"),
    [
        ({"path": "/a HTTP/1.1\r\nHost: h\r\n\r\nPUT / HTTP/1.1"}, "path"),
        ({"path": "/", "host": "169.254.169.254\r\n"}, "host"),
        ({"path": "/", "httpHeaders": [{"name": "a b", "value": "c"}]}, "httpHeaders[0].name"),
        ({"path": "/", "httpHeaders": [{"name": "a", "value": "c\n"}]}, "httpHeaders[0].value"),
    ],
)
async def test_a_hook_that_would_send_other_requests_is_not_copied(get: Document, field: str) -> None:
    main = {"name": "main", "lifecycle": {"preStop": {"httpGet": {"port": 80, **get}}}}
    result = await problems(document(), pod(main))
    assert result == [(f"spec.containers[0].preStop.httpGet.{field}", "FieldValueInvalid")]


def with_init(restart_policy: str | None, name: str = "mesh") -> Document:
    """A pod with one init container, and the container `main`."""
    container = {"name": name, **({"restartPolicy": restart_policy} if restart_policy else {})}
    statuses = [{"name": name, "containerID": "containerd://i", "restartCount": 1}]
    return pod(spec={"initContainers": [container]}, status={"initContainerStatuses": statuses})


async def test_a_sidecar_among_the_init_containers_is_recreated_like_any_other() -> None:
    result = await stored(document(MAIN, {"name": "mesh"}), with_init("Always"))
    contexts = [container["statusContext"]["containerID"] for container in result["spec"]["containers"]]
    assert contexts == ["containerd://main", "containerd://i"]


async def test_a_reviewer_without_a_cluster_judges_only_the_request() -> None:
    reviewer = build_mutating_review(Lookups())
    answer = await reviewer(asked(document()))
    assert answer.object is not None
    assert answer.object["metadata"]["labels"] == ACTIVE
    assert answer.object["spec"] == {**document()["spec"], "strategy": {"failurePolicy": "Fail"}}
    assert (await reviewer(asked(document(activeDeadlineSeconds=2)))).refusal is not None
    # also without metadata, which no API server leaves out
    bare = await reviewer(asked({**document(), "metadata": None}))
    assert bare.object is not None
    assert bare.object["metadata"] == {"labels": ACTIVE}


@pytest.mark.parametrize("missing", ["pods", "nodes"])
async def test_neither_pods_nor_nodes_are_read_when_one_of_them_cannot_be(missing: str) -> None:
    known = cluster(None, None)
    some = Lookups(pods=known.pods) if missing == "nodes" else Lookups(nodes=known.nodes)
    answer = await build_mutating_review(some)(asked(document()))
    assert answer.refusal is None


# Refusals


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ({"podName": ""}, [("spec.podName", "FieldValueRequired")]),
        ({"containers": []}, [("spec.containers", "FieldValueRequired")]),
        ({"activeDeadlineSeconds": 2}, [("spec.activeDeadlineSeconds", "FieldValueInvalid")]),
        ({"activeDeadlineSeconds": 0}, [("spec.activeDeadlineSeconds", "FieldValueInvalid")]),
        ({"ttlSecondsAfterFinished": -1}, [("spec.ttlSecondsAfterFinished", "FieldValueInvalid")]),
        (
            {
                "strategy": {
                    "terminationGracePeriodSeconds": -1,
                    "unreadyGracePeriodSeconds": -1,
                    "minStartedSeconds": -1,
                    "failurePolicy": "Retry",
                }
            },
            [
                ("spec.strategy.terminationGracePeriodSeconds", "FieldValueInvalid"),
                ("spec.strategy.unreadyGracePeriodSeconds", "FieldValueInvalid"),
                ("spec.strategy.minStartedSeconds", "FieldValueInvalid"),
                ("spec.strategy.failurePolicy", "FieldValueNotSupported"),
            ],
        ),
    ],
)
async def test_an_invalid_request_is_refused(spec: Document, value: list[tuple[str, str]]) -> None:
    """containers cases 5 and 6"""
    assert await problems(document(**spec), pod()) == value


async def test_a_refusal_uses_the_generated_name_of_the_request() -> None:
    given = document(podName="")
    del given["metadata"]["name"]
    refusal = (await build_mutating_review(Lookups())(asked(given, name="again-x"))).refusal
    assert refusal is not None
    assert refusal.details is not None
    assert refusal.details.name == "again-x"


async def test_a_request_without_a_spec_misses_both_of_its_fields() -> None:
    given = document()
    del given["spec"]
    missing = [("spec.podName", "FieldValueRequired"), ("spec.containers", "FieldValueRequired")]
    assert await problems(given) == missing
    assert await problems({**given, "spec": None}) == missing


async def test_a_field_of_another_type_is_named() -> None:
    refusal = (await review(document(podName=7), pod())).refusal
    assert refusal is not None
    assert (refusal.code, "podName" in refusal.message) == (400, True)


async def test_a_review_without_an_object_is_refused() -> None:
    refusal = (await build_mutating_review(Lookups())(asked(None))).refusal
    assert refusal is not None
    assert refusal.code == 400


GONE: Any = {"deletionTimestamp": "2026-05-01T12:00:00Z"}
LEFT_TO_IT = {"conditions": [{"type": "Ready"}, {"type": "SidecarTerminated", "status": "False"}]}


@pytest.mark.parametrize(
    ("the_pod", "field", "reason"),
    [
        (None, "spec.podName", "FieldValueNotFound"),
        (pod(status={"phase": "Succeeded"}), "spec.podName", "FieldValueInvalid"),
        (pod(status={"phase": "Failed", "conditions": None}), "spec.podName", "FieldValueInvalid"),
        (pod(metadata=GONE, status={"conditions": [{"type": "Ready"}]}), "spec.podName", "FieldValueInvalid"),
        (pod(spec={"nodeName": None}), "spec.podName", "FieldValueInvalid"),
        (pod(spec={"nodeName": ""}), "spec.podName", "FieldValueInvalid"),
        (pod({"name": "other"}), "spec.containers[0].name", "FieldValueNotFound"),
        (
            with_init(None, name="x") | {"spec": {"nodeName": "n1"}},
            "spec.containers[0].name",
            "FieldValueNotFound",
        ),
        (pod(status={"containerStatuses": None}), "spec.containers[0].name", "FieldValueInvalid"),
        (pod(status={"containerStatuses": []}), "spec.containers[0].name", "FieldValueInvalid"),
        (
            pod(status={"containerStatuses": [{"name": "main", "containerID": ""}]}),
            "spec.containers[0].name",
            "FieldValueInvalid",
        ),
    ],
)
async def test_a_pod_whose_containers_cannot_be_recreated_is_refused(
    the_pod: Document | None, field: str, reason: str
) -> None:
    """containers cases 2 and 3"""
    assert await problems(document(), the_pod) == [(field, reason)]


async def test_a_pod_without_a_status_has_started_nothing() -> None:
    bare = pod()
    del bare["status"]
    assert await problems(document(), bare) == [("spec.containers[0].name", "FieldValueInvalid")]


@pytest.mark.parametrize("over", [{"status": {"phase": "Succeeded", **LEFT_TO_IT}}, {"metadata": GONE}])
async def test_the_sidecars_of_a_pod_that_are_left_may_be_recreated(over: Document) -> None:
    """containers case 2 and pitfall 9: whatever the condition says"""
    await stored(document(), pod(**{"status": LEFT_TO_IT, **over}))


async def test_a_pod_on_a_missing_node_is_refused_with_the_nodes_name() -> None:
    refusal = (await review(document(), pod(), node=None)).refusal
    assert refusal is not None
    assert refusal.code == 422
    assert "spec.podName" in refusal.message
    assert "n1 does not exist" in refusal.message


async def test_an_init_container_that_ends_is_not_recreated() -> None:
    """containers case 3"""
    assert await problems(document({"name": "mesh"}), with_init(None)) == [
        ("spec.containers[0].name", "FieldValueNotFound")
    ]


async def test_all_errors_of_each_container_are_reported() -> None:
    """containers cases 3 and 4"""
    hook = {
        "preStop": {"exec": COMMAND},
        "ports": [],
        "statusContext": {"containerID": "", "restartCount": 0},
    }
    result = await problems(document(MAIN, {"name": "main", **hook}, {"name": "other"}), pod())
    assert result == [
        ("spec.containers[1].name", "FieldValueDuplicate"),
        ("spec.containers[1].preStop", "FieldValueForbidden"),
        ("spec.containers[1].ports", "FieldValueForbidden"),
        ("spec.containers[1].statusContext", "FieldValueForbidden"),
        ("spec.containers[2].name", "FieldValueNotFound"),
    ]


# Updates


def as_stored(
    *, labels: Document | None = None, annotations: Document | None = None, **spec: Any
) -> Document:
    result = document(**spec)
    result["metadata"]["labels"] = (
        {POD_UID: "uid-web", NODE_NAME: "n1", **ACTIVE} if labels is None else labels
    )
    result["metadata"]["annotations"] = annotations or {}
    return result


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (as_stored(), as_stored(podName="x"), "spec is immutable"),
        (as_stored(), {"metadata": as_stored()["metadata"]}, "spec is immutable"),
        (as_stored(strategy={"minStartedSeconds": 5}), as_stored(strategy={}), "spec is immutable"),
        (as_stored(ttlSecondsAfterFinished=0), as_stored(), "spec is immutable"),
        (as_stored(), as_stored(labels={NODE_NAME: "n1"}), f"label {POD_UID} is immutable"),
        (
            as_stored(),
            as_stored(labels={POD_UID: "uid-web", NODE_NAME: "n2"}),
            f"label {NODE_NAME} is immutable",
        ),
        (as_stored(labels={}), as_stored(), f"label {NODE_NAME} is immutable"),
        (as_stored(annotations={SINCE: "a"}), as_stored(), f"annotation {SINCE} is immutable"),
        (
            as_stored(annotations={SINCE: "a"}),
            as_stored(annotations={SINCE: "b"}),
            f"annotation {SINCE} is immutable",
        ),
    ],
)
async def test_the_spec_and_target_labels_of_a_stored_request_are_immutable(
    old: Document, new: Document, message: str
) -> None:
    """containers case 7"""
    refusal = (await build_mutating_review(Lookups())(asked(new, old))).refusal
    assert refusal is not None
    assert (refusal.status, refusal.code, refusal.reason) == ("Failure", 403, "Forbidden")
    assert refusal.message == message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (as_stored(), as_stored()),
        (as_stored(), as_stored(labels={POD_UID: "uid-web", NODE_NAME: "n1", "a": "b"})),
        (as_stored(annotations={SINCE: ""}), as_stored(annotations={SINCE: "a"})),
        (as_stored(annotations={SINCE: "a"}), as_stored(annotations={SINCE: "a", "b": "c"})),
        # a typed client leaves out zero values
        (as_stored(strategy={"orderedRecreate": False, "minStartedSeconds": 0}), as_stored(strategy={})),
        # an invalid value that was stored before its rule existed is accepted
        (as_stored(activeDeadlineSeconds=1), as_stored(activeDeadlineSeconds=1, annotations={"b": "c"})),
    ],
)
async def test_all_other_fields_of_a_stored_request_may_change(old: Document, new: Document) -> None:
    """containers case 7; and no value is filled in"""
    assert await build_mutating_review(cluster(None, None))(asked(new, old)) == AdmissionAnswer()


async def test_an_update_without_the_old_object_is_refused() -> None:
    refusal = (await build_mutating_review(Lookups())(asked(as_stored(), operation="UPDATE"))).refusal
    assert refusal is not None
    assert refusal.code == 403


async def test_status_writes_are_not_reviewed() -> None:
    other = as_stored(podName="other")
    assert (
        await build_mutating_review(Lookups())(asked(other, as_stored(), subresource="status"))
        == AdmissionAnswer()
    )


@pytest.mark.parametrize(
    ("policy", "conditions", "count"),
    [
        ("Never", [], 1),
        ("OnFailure", [], 0),
        ("Always", [], 0),
        ("Never", [{"type": "SidecarTerminated", "status": "True"}], 0),
    ],
)
async def test_a_container_that_never_starts_again_gets_a_warning(
    policy: str, conditions: list[Document], count: int
) -> None:
    target = pod(MAIN)
    target["spec"]["restartPolicy"] = policy
    target["status"]["conditions"] = conditions
    answer = await review(document(), target)
    assert answer.refusal is None
    assert len(answer.warnings) == count
