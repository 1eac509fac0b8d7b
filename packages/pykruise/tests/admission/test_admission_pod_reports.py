"""Events from steps of pod admission: about rejected pods, and about pods that a budget protected."""

import random
from typing import Any

import pytest

from pykruise.admission.pods.chain import list_participants
from pykruise.admission.pods.reports import StepReports, record_events
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.pod_steps import make_prevention_report
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.pod_steps import make_refusal_report
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.pod_steps import PreventedDisruption, StepReport
from support.budgets import budget
from support.budgets import view as budget_view
from support.sidecarsets import container, sidecarset, view

LOG = view(sidecarset("log", container("log")))
ERROR = InjectionError("no room")


class Nowhere:
    """A transport without requests."""


class Recorder:
    """Keeps the recorded events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Document]] = []

    def record(self, resource: Any, **event: Any) -> None:
        self.events.append((f"{resource.api_version} {resource.kind}", event))


def recorded(report: StepReport) -> list[tuple[str, Document]]:
    recorder = Recorder()
    record_events(recorder, report)  # type: ignore[arg-type]
    return recorder.events


def refused(pod: Document, **fields: Any) -> StepReport:
    return make_refusal_report(pod, namespace="shop", error=ERROR, **{"sidecarset": None, **fields})


def owned(api_version: str) -> Document:
    owner = build_owner_reference(api_version=api_version, kind="Owner", name="web-1", uid="uid-1")
    return {"metadata": {"generateName": "web-1-", "ownerReferences": [owner]}}


def test_an_event_of_the_sidecarset_names_the_refused_pod_and_the_reason() -> None:
    assert recorded(refused({"metadata": {"generateName": "web-1-"}}, sidecarset=LOG)) == [
        (
            "apps.kruise.io/v1beta1 SidecarSet",
            {
                "namespace": "",
                "name": "log",
                "uid": LOG.uid,
                "reason": "FailedInjection",
                "message": "pod web-1- of namespace shop was rejected: no room",
                "warning": True,
            },
        )
    ]


@pytest.mark.parametrize("api_version", ["apps/v1", "v1"])
def test_an_event_of_the_owner_reports_that_its_pods_are_refused(api_version: str) -> None:
    assert recorded(refused(owned(api_version))) == [
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


def test_sidecarset_and_owner_both_get_the_event() -> None:
    assert [event.name for event in refused(owned("apps/v1"), sidecarset=LOG).events] == ["log", "web-1"]


def test_a_refused_pod_without_controller_and_sidecarset_has_no_event() -> None:
    assert refused({"metadata": None}) == StepReport()


@pytest.mark.parametrize(
    ("metadata", "pod"),
    [
        ({"name": "web-1-x", "generateName": "web-1-"}, "web-1-x"),
        ({"name": "", "generateName": "web-1-"}, "web-1-"),
        ({}, ""),
        (None, ""),
    ],
)
def test_a_refused_pod_is_named_by_its_name_or_generated_name(metadata: Document | None, pod: str) -> None:
    (event,) = refused({"metadata": metadata}, sidecarset=LOG).events
    assert event.message == f"pod {pod} of namespace shop was rejected: no room"


POD: Document = {"metadata": {"name": "web-0", "namespace": "shop", "uid": "uid-0"}}
KEEP = budget_view(budget("keep", maxUnavailable=1))


def test_a_pod_protected_by_a_budget_has_an_event() -> None:
    assert recorded(make_prevention_report(POD, KEEP, username="alice")) == [
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


def test_a_protected_pod_is_counted_and_each_component_writes_its_own_events() -> None:
    """The test runs over all kinds that report events."""
    # given
    prevented: list[PreventedDisruption] = []
    taking = list_participants(Gates().__getitem__)
    reports = StepReports(
        Client(Nowhere()),  # type: ignore[arg-type]
        taking,
        clock=lambda: 0.0,
        rng=random.Random(1),
        on_prevented=prevented.append,
    )
    # when
    for _, steps in taking:
        if steps.component:
            reports.report(steps.component, StepReport())
    reports.report("pub-controller", make_prevention_report(POD, KEEP, username="alice"))
    # then
    assert [
        (prevented_disruption.kind, prevented_disruption.name, prevented_disruption.pod)
        for prevented_disruption in prevented
    ] == [("PodUnavailableBudget", "keep", "web-0")]
