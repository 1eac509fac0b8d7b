"""The sandbox's view of a pod."""

import msgspec
import pytest

from pykruise.kube.documents import encode
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from support.paper import pod_document, view


def test_equal_parts_of_pods_are_shared() -> None:
    # given
    project = SandboxPodProjector()
    docs = [pod_document(f"web-{n}", owner="set", tolerations=[{"operator": "Exists"}]) for n in range(2)]
    # when
    pod, other = (project(encode(doc)) for doc in docs)
    # then
    assert pod.containers is other.containers
    assert pod.placement is other.placement
    assert pod.owners is other.owners
    assert pod.status.conditions is other.status.conditions
    assert pod.owner_uid == "set"


def test_containers_that_differ_only_in_unread_fields_are_shared_too() -> None:
    # given
    project = SandboxPodProjector()
    docs = [pod_document("web-0"), pod_document("web-1")]
    for number, doc in enumerate(docs):
        doc["spec"]["containers"][0]["volumeMounts"] = [{"name": f"kube-api-access-{number}"}]
    # when
    pod, other = (project(encode(doc)) for doc in docs)
    # then
    assert pod.containers is other.containers


def test_a_pods_request_is_the_larger_of_its_start_and_its_run() -> None:
    # given: main 300m; sidecar 100m; an init container of 500m that runs beside the sidecar
    def asks(cpu: str) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}

    doc = pod_document(
        requests={"cpu": "300m", "memory": "1Gi"},
        initContainers=[
            {"name": "mesh", "image": "mesh", "restartPolicy": "Always", **asks("100m")},
            {"name": "setup", "image": "setup", **asks("500m")},
        ],
        overhead={"cpu": "10m"},
    )
    # when
    wanted = view(doc).sum_requests()
    # then
    assert wanted == {"cpu": 610, "memory": 2**30 + 2**20}


def test_quantities_that_cannot_be_read_count_as_nothing() -> None:
    assert view(pod_document(requests={"cpu": "many", "memory": "1Mi"})).sum_requests() == {"memory": 2**20}


def test_a_pod_with_nulls_and_gaps_can_be_read() -> None:
    # given
    raw = b"""{
        "metadata":{"name":"a","resourceVersion":"7","labels":null,"ownerReferences":null,"finalizers":null},
        "spec":{"containers":[{"name":"c"}],"initContainers":null,"affinity":null,"tolerations":null,
                "readinessGates":null,"hostNetwork":null},"status":{"conditions":null,"containerStatuses":null}}"""
    # when
    pod = SandboxPodProjector()(raw)
    # then
    assert (pod.name, pod.resource_version, pod.owners, pod.labels) == ("a", 7, (), {})
    assert pod.init_containers.items == ()
    assert pod.status.conditions == ()
    assert not pod.is_deleting


def test_an_invalid_pod_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        SandboxPodProjector()(b'{"metadata": {"name": 5}}')
