"""Fields of a pod's JSON text in its view."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from pykruise.kube.documents import LAST_APPLIED
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts, Resources
from pykruise.pods.view.decoding import PodProjector, project_pod
from pykruise.pods.view.ephemeral import EphemeralView
from pykruise.pods.view.pod_view import ControllerView, PodView, is_active

STATE = {keys.IN_PLACE_STATE_ANNOTATION: "{}"}


def view(
    *,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> PodView:
    document = {"metadata": {"name": "a", **metadata}, "spec": spec or {}, "status": status or {}}
    return project_pod(orjson.dumps(document))


def owned_by(api_version: str, kind: str) -> list[dict[str, Any]]:
    return [{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u-o", "controller": True}]


def restarted(name: str, count: int) -> dict[str, Any]:
    return {"name": name, "restartCount": count}


def test_an_empty_pod_document_has_empty_fields() -> None:
    """A client may send such a document in a dry run, or a fake API server may store it."""
    pod = view()
    assert (pod.resource_version, pod.generation, pod.deletion_cost, pod.ip) == (0, 0, 0, "")
    assert (pod.finalizers, pod.open_gates, pod.conditions, pod.ephemeral) == ((), (), (), ())
    assert (pod.rank.minus_restarts, pod.rank.minus_init_restarts) == (0, 0)
    assert not pod.is_in_grace


@pytest.mark.parametrize(
    ("api_version", "group"), [("v1", ""), ("apps/v1", "apps"), ("apps.kruise.io/v1alpha1", "apps.kruise.io")]
)
def test_the_controller_is_identified_by_its_group_in_any_version(api_version: str, group: str) -> None:
    pod = view(ownerReferences=owned_by(api_version, "Owner"))
    assert pod.controller == ControllerView(group, "Owner", "o", "u-o")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Never", "Never"),
        ("OnFailure", "OnFailure"),
        ("Always", "Always"),
        ("SomethingNew", "Always"),
        (None, "Always"),
    ],
)
def test_the_default_restart_policy_is_always(policy: str | None, expected: str) -> None:
    assert view(spec={"restartPolicy": policy}).restart_policy == expected


@pytest.mark.parametrize(("ip", "expected"), [("10.0.0.7", "10.0.0.7"), (None, "")])
def test_a_pod_has_an_address_when_its_node_gave_it_one(ip: str | None, expected: str) -> None:
    assert view(status={"podIP": ip}).ip == expected


def test_the_container_that_restarted_most_counts_and_so_does_the_sidecar() -> None:
    # given a pod with several containers and sidecars, and an init container that has ended
    spec = {
        "initContainers": [
            {"name": "one", "restartPolicy": "Always"},
            {"name": "two", "restartPolicy": "Always"},
            {"name": "setup"},
        ]
    }
    status = {
        "containerStatuses": [restarted("a", 1), restarted("b", 4), restarted("c", 2)],
        "initContainerStatuses": [restarted("one", 3), restarted("two", 5), restarted("setup", 9)],
    }
    # then
    pod = view(spec=spec, status=status)
    assert (pod.rank.minus_restarts, pod.rank.minus_init_restarts) == (-4, -5)
    assert [status.restart_count for status in pod.init_statuses] == [3, 5, 9]


def test_an_init_container_that_ends_is_not_a_sidecar() -> None:
    spec = {
        "initContainers": [
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
            {"name": "bare", "image": None, "restartPolicy": "Always"},
            {"name": "setup", "image": "setup:1"},
            {"name": "once", "restartPolicy": None},
        ]
    }
    pod = view(spec=spec, status={"initContainerStatuses": [restarted("setup", 2)]})
    assert pod.sidecars == (ContainerFacts("proxy", "proxy:1"), ContainerFacts("bare", ""))
    assert pod.rank.minus_init_restarts == 0


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ContainerStatusFacts("c")),
        ({"state": {"running": {}}, "image": None, "imageID": None}, ContainerStatusFacts("c")),
        (
            {"state": {"running": {}}, "resources": {"limits": None}},
            ContainerStatusFacts("c", resources=Resources()),
        ),
        ({"state": {"waiting": {"reason": None}}}, ContainerStatusFacts("c")),
        (
            {"state": {"waiting": {"reason": "ErrImagePull"}}},
            ContainerStatusFacts("c", waiting="ErrImagePull"),
        ),
        ({"state": {"terminated": {"exitCode": 3}}}, ContainerStatusFacts("c", exit_code=3)),
        ({"state": {"terminated": {"exitCode": 0}}}, ContainerStatusFacts("c", exit_code=0)),
        (
            {
                "state": {"running": {}},
                "image": "i",
                "imageID": "sha:1",
                "containerID": "c://1",
                "restartCount": 2,
                "ready": True,
            },
            ContainerStatusFacts("c", "i", "sha:1", "c://1", 2, True),
        ),
    ],
)
def test_a_container_status_reports_its_state(status: dict[str, Any], expected: ContainerStatusFacts) -> None:
    pod = view(status={"containerStatuses": [{"name": "c", **status}]})
    assert pod.container_statuses == (expected,)


def test_ephemeral_containers_are_read_with_their_state() -> None:
    spec = {"ephemeralContainers": [{"name": "debug"}]}
    assert view(spec=spec).ephemeral == (EphemeralView("debug"),)


def test_a_pod_with_sidecars_keeps_all_annotations_except_last_applied() -> None:
    """SidecarSets may change any of them."""
    few = {"example.com/a": "1", keys.SIDECARSET_LIST_ANNOTATION: "logs"}
    assert view(annotations={**few, LAST_APPLIED: "{...}"}).annotations == few


@pytest.mark.parametrize("state", [keys.IN_PLACE_STATE_ANNOTATION, keys.LEGACY_IN_PLACE_STATE_ANNOTATION])
def test_an_update_in_place_is_judged_by_annotations_that_feed_containers_and_not_by_labels(
    state: str,
) -> None:
    # given a container that is fed from an annotation, and from a label with the key of another annotation
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}['{key}']"}}}
        for name, field, key in (("A", "annotations", "fed"), ("L", "labels", "other"))
    ]
    # then
    pod = view(
        spec={"containers": [{"name": "c", "env": env}]}, annotations={state: "{}", "fed": "1", "other": "2"}
    )
    assert pod.annotations == {state: "{}", "fed": "1"}


@pytest.mark.parametrize("other", ["True", "False"])
@pytest.mark.parametrize("held", ["True", "False"])
@pytest.mark.parametrize("turn", [1, -1])
def test_only_the_in_place_condition_decides_whether_a_pod_may_be_updating(
    held: str, other: str, turn: int
) -> None:
    # given conditions in both orders
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": keys.IN_PLACE_READY, "status": held},
        {"type": "example.com/other", "status": other},
    ][::turn]
    gates = {"readinessGates": [{"conditionType": keys.IN_PLACE_READY}]}
    # then
    pod = view(spec=gates, status={"phase": "Running", "conditions": conditions}, annotations=STATE)
    assert pod.may_be_updating is (held == "False")
    assert pod.is_ready is (held == "True")


@pytest.mark.parametrize(
    ("condition", "is_open", "may_be_updating"),
    [
        ({"status": "True"}, False, False),
        ({"status": "True", "reason": "r"}, True, True),
        ({"status": "True", "message": "m"}, True, True),
        ({"status": "False"}, True, True),
        ({"status": "Unknown"}, True, True),
    ],
)
def test_a_gate_is_open_until_its_condition_is_a_clean_true(
    condition: dict[str, str], is_open: bool, may_be_updating: bool
) -> None:
    gates = {"readinessGates": [{"conditionType": keys.IN_PLACE_READY}]}
    status = {"conditions": [{"type": keys.IN_PLACE_READY, **condition}]}
    idle = view(spec=gates, status=status)
    assert bool(idle.open_gates) is is_open
    # a pod without an update may not be updating, and during an update the gate is left to the update
    assert not idle.may_be_updating
    busy = view(spec=gates, status=status, annotations=STATE)
    assert (busy.may_be_updating, busy.open_gates) == (may_be_updating, ())


@pytest.mark.parametrize("values", [None, []])
def test_an_affinity_that_names_no_node_does_not_hide_one_that_does(values: list[str] | None) -> None:
    def field(values: list[str] | None) -> dict[str, Any]:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]}

    terms = {"nodeSelectorTerms": [field(values), field(["n2"])]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    assert view(spec={"affinity": {"nodeAffinity": required}}).wanted_node == "n2"


VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
    {"name": "tmp", "emptyDir": {}},
]


@pytest.mark.parametrize(
    ("owner", "volumes", "expected"),
    [
        (("apps.kruise.io/v1beta1", "StatefulSet"), VOLUMES, (("data", "data-web-0"),)),
        (("apps.kruise.io/v1beta1", "StatefulSet"), None, ()),
        (("apps.kruise.io/v1beta1", "StatefulSet"), "x", ()),
        (("apps/v1", "StatefulSet"), VOLUMES, ()),
        (("apps.kruise.io/v1beta1", "CloneSet"), VOLUMES, ()),
        (None, VOLUMES, ()),
    ],
)
def test_claims_are_read_only_from_pods_with_their_own_claims_by_name(
    owner: tuple[str, str] | None, volumes: Any, expected: tuple[tuple[str, str], ...]
) -> None:
    pod = view(spec={"volumes": volumes}, ownerReferences=owned_by(*owner) if owner else None)
    assert pod.claim_volumes == expected


def test_a_pod_without_volumes_has_no_claims() -> None:
    assert view(ownerReferences=owned_by("apps.kruise.io/v1beta1", "StatefulSet")).claim_volumes == ()


@pytest.mark.parametrize(
    ("owner", "asks"),
    [
        (("apps.kruise.io/v1beta1", "BroadcastJob"), True),
        (("batch/v1", "BroadcastJob"), False),
        (("apps.kruise.io/v1beta1", "CloneSet"), False),
        (None, False),
    ],
)
def test_node_requirements_of_a_pod_are_kept_for_owners_that_follow_nodes(
    owner: tuple[str, str] | None, asks: bool
) -> None:
    spec = {"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}]}
    node_requirements = view(spec=spec, ownerReferences=owned_by(*owner) if owner else None).asks_of_nodes
    assert (node_requirements is not None) is asks
    if node_requirements is not None:
        assert (node_requirements.node_selector, list(node_requirements.tolerations)) == (
            {"disk": "fast"},
            [{"operator": "Exists"}],
        )


def test_values_that_no_two_pods_share_do_not_fill_the_table_of_those_that_they_do() -> None:
    # given
    project = PodProjector()
    sizes = []
    # when
    for number in range(5):
        labels = {"app": "web", keys.INSTANCE_ID_LABEL: f"id{number}"}
        project(orjson.dumps({"metadata": {"name": f"web-{number}", "labels": labels}}))
        sizes.append(len(project._shared))
    # then
    assert len(set(sizes)) == 1


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, True),
        ({"metadata": None, "status": None}, True),
        ({"status": {"phase": "Running"}}, True),
        ({"status": {"phase": "Failed"}}, False),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}, "status": {"phase": "Running"}}, False),
    ],
)
def test_a_document_shows_admission_whether_a_pod_is_active(pod: dict[str, Any], expected: bool) -> None:
    assert is_active(pod) is expected
