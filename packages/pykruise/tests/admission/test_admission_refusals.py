"""What is told of pods that were refused, and of pods that a budget kept."""

from typing import Any

import pytest

from pykruise.admission.pods.budget import PreventedDisruption
from pykruise.admission.pods.refusals import PreventionEvents, Refusal, RefusalEvents, refusal_of
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kube.documents import Document
from pykruise.kube.values.owners import OwnerReference, owner_reference
from support.sidecarsets import container, sidecarset, view

LOG = view(sidecarset("log", container("log")))


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Document]] = []

    def record(self, resource: Any, **event: Any) -> None:
        self.events.append((f"{resource.api_version} {resource.kind}", event))


def told(refusal: Refusal) -> list[tuple[str, Document]]:
    recorder = Recorder()
    RefusalEvents(recorder).tell(refusal)  # type: ignore[arg-type]
    return recorder.events


def refused(**fields: Any) -> Refusal:
    return Refusal(namespace="shop", pod="web-1-", message="no room", **fields)


def test_the_sidecarset_says_of_which_pod_and_why() -> None:
    assert told(refused(sidecarset=LOG)) == [
        (
            "apps.kruise.io/v1beta1 SidecarSet",
            {
                "namespace": "",
                "name": "log",
                "uid": LOG.uid,
                "reason": "FailedInjection",
                "message": "a pod of shop is refused (web-1-): no room",
                "warning": True,
            },
        )
    ]


@pytest.mark.parametrize("api_version", ["apps/v1", "v1"])
def test_the_owner_says_that_it_gets_no_pods(api_version: str) -> None:
    owner = OwnerReference(api_version=api_version, kind="Owner", name="web-1", uid="uid-1")
    assert told(refused(owner=owner)) == [
        (
            f"{api_version} Owner",
            {
                "namespace": "shop",
                "name": "web-1",
                "uid": "uid-1",
                "reason": "FailedInjection",
                "message": "pods cannot be created: no room",
                "warning": True,
            },
        )
    ]


def test_nobody_says_anything_of_a_pod_that_nobody_wants() -> None:
    assert told(refused()) == []


@pytest.mark.parametrize(
    ("metadata", "pod"),
    [
        ({"name": "web-1-x", "generateName": "web-1-"}, "web-1-x"),
        ({"name": "", "generateName": "web-1-"}, "web-1-"),
        ({}, ""),
        (None, ""),
    ],
)
def test_a_refused_pod_is_called_as_far_as_it_has_a_name(metadata: Document | None, pod: str) -> None:
    error = InjectionError("no room")
    found = refusal_of({"metadata": metadata}, namespace="shop", error=error, sidecarset=None)
    assert (found.namespace, found.pod, found.message, found.owner) == ("shop", pod, "no room", None)


def test_a_refused_pod_names_its_controller() -> None:
    owner = owner_reference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="rs")
    pod = {"metadata": {"ownerReferences": [owner]}}
    found = refusal_of(pod, namespace="shop", error=InjectionError("x"), sidecarset=LOG)
    assert found.owner is not None
    assert (found.owner.name, found.sidecarset) == ("web-1", LOG)


def test_a_pod_that_a_budget_kept_says_so() -> None:
    recorder = Recorder()
    prevented = PreventedDisruption(
        namespace="shop", pod="web-0", budget="keep", uid="uid-0", owner=None, username="alice"
    )
    PreventionEvents(recorder).tell(prevented)  # type: ignore[arg-type]
    assert recorder.events == [
        (
            "v1 Pod",
            {
                "namespace": "shop",
                "name": "web-0",
                "uid": "uid-0",
                "reason": "PubPreventPodDeletion",
                "message": "openkruise pub prevents pod deletion",
                "warning": True,
            },
        )
    ]
