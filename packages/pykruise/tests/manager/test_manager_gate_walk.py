"""Every feature gate, on and off, for every kind.

A kind whose gate is off has no watch and no permission, and its webhooks only refuse. The tests loop over all kinds,
so new kinds are covered.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import GATES, Gates, list_all_gates
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest
from pykruise.kube.client.client import Client
from pykruise.kube.rbac import Right
from pykruise.kube.resources import Resource
from pykruise.manager.manager import Manager
from pykruise.manager.roles import list_needed_rights
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.plans.views import SHARED
from pykruise.pods.settings import build_settings
from pykruise.runtime.assemble import views_of

ALL = tuple(list_kinds())
GATED = [kind for kind in ALL if kind.gates or kind.any_gate]


def flipped(name: str) -> Gates:
    """The default gates, except that this one is flipped."""
    return Gates.of(**{name: not GATES[name].default})


def with_kind(kind: Kind, *, on: bool) -> Gates:
    """Gates that switch this kind on, or off; all others have their defaults."""
    return Gates.of(**dict.fromkeys((*kind.gates, *kind.any_gate), on))


def manager_of(gates: Gates) -> Manager:
    """A manager that does not run: its watches are known already."""
    nowhere: Any = None
    return Manager(
        Client(nowhere, rng=random.Random(1)), settings=ManagerSettings(gates=gates), rng=random.Random(1)
    )


def watched(gates: Gates) -> set[str]:
    return set(manager_of(gates).read_stats().caches)


def read_by_others(kind: Kind, gates: Gates) -> set[str]:
    """Resources that other enabled kinds read, and those that every manager reads."""
    settings = ManagerSettings(gates=gates)
    others = (item for item in ALL if item is not kind and item.is_enabled(gates.__getitem__))
    return {
        str(views.resource)
        for kind in others
        if kind.control is not None
        for views in views_of(kind.control, settings.read_kind_settings(kind))
    } | {str(views.resource) for views in SHARED}


def verbs(rights: list[Right]) -> set[tuple[Any, ...]]:
    """Rights without their reasons, verb by verb."""
    return {
        (right.group, right.resource, verb, right.names, right.in_namespace)
        for right in rights
        for verb in right.verbs
    }


def written(resource: Resource, operation: str) -> AdmissionRequest:
    """A new object, or an update that changes the spec."""
    doc = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, "spec": {}}
    old = {**doc, "spec": {"other": 1}} if operation == "UPDATE" else None
    return AdmissionRequest(
        uid="1",
        operation=operation,
        resource=resource,
        namespace="shop",
        name="x",
        object=doc,
        old_object=old,
    )


def answers(kind: Kind, gates: Gates, operation: str = "CREATE") -> Iterator[AdmissionAnswer]:
    """Answers of a kind's webhooks to a new object, or to an update of its spec."""
    for rule in build_reviewers(make_admission_settings(gates)):
        names = {
            (group, name)
            for resource_rule in rule.rules
            for group in resource_rule.groups
            for name in resource_rule.resources
        }
        operations = {operation for resource_rule in rule.rules for operation in resource_rule.operations}
        if (kind.resource.group, kind.resource.plural) in names and operation in operations:
            yield asyncio.run(_review(rule.reviewer, written(kind.resource, operation)))


async def _review(reviewer: Any, request: AdmissionRequest) -> AdmissionAnswer:
    answer: AdmissionAnswer = await reviewer(request)
    return answer


def names_gate(answer: AdmissionAnswer) -> bool:
    return answer.refusal is not None and "feature-gate" in answer.refusal.message


def by_name(kind: Kind) -> str:
    return kind.name


@pytest.mark.parametrize("kind", GATED, ids=by_name)
def test_a_kind_that_is_off_is_not_watched_and_has_no_controller(kind: Kind) -> None:
    off = with_kind(kind, on=False)
    assert kind not in manager_of(off).kinds
    if kind.control is not None:
        own = {
            str(views.resource)
            for views in views_of(kind.control, ManagerSettings(gates=off).read_kind_settings(kind))
        }
        assert not (own - read_by_others(kind, off)) & watched(off)


@pytest.mark.parametrize("kind", GATED, ids=by_name)
def test_a_disabled_kind_needs_no_rights(kind: Kind) -> None:
    off, on = with_kind(kind, on=False), with_kind(kind, on=True)
    assert not set(kind.rights) & set(list_needed_rights(off))
    assert verbs(list_needed_rights(off)) <= verbs(list_needed_rights(on))
    assert set(kind.rights) <= set(list_needed_rights(on))


@pytest.mark.parametrize("kind", [kind for kind in GATED if kind.versions], ids=by_name)
def test_webhooks_of_a_kind_that_is_off_refuse_by_the_name_of_its_gate_and_do_nothing_else(
    kind: Kind,
) -> None:
    off = list(answers(kind, with_kind(kind, on=False)))
    assert all(admission_answer.object is None for admission_answer in off if names_gate(admission_answer))
    if any(True for _ in answers(kind, with_kind(kind, on=True))):
        assert any(names_gate(admission_answer) for admission_answer in off)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(
    ("kind", "gate"), [(kind, gate) for kind in GATED for gate in kind.gates], ids=lambda item: str(item)[:40]
)
def test_each_of_the_gates_of_a_kind_switches_it_off_alone(kind: Kind, gate: str, operation: str) -> None:
    on = dict.fromkeys(("PreDownloadImageForInPlaceUpdate", "PreDownloadImageForDaemonSetUpdate"), False)
    off = Gates.of(**{**on, **dict.fromkeys(kind.gates, True), gate: False})
    assert not off[gate]
    assert kind not in manager_of(off).kinds
    assert not set(kind.rights) & set(list_needed_rights(off))
    if kind.reviews.mutating is not None or kind.reviews.validating is not None:
        refused = [answer for answer in answers(kind, off, operation) if names_gate(answer)]
        assert refused
        assert all(
            admission_answer.refusal is not None and admission_answer.refusal.code == 403
            for admission_answer in refused
        )


WITHOUT_DAEMON = Gates.of(
    KruiseDaemon=False, **dict.fromkeys(("SidecarTerminator", "ImagePullJobGate"), True)
)


def test_objects_of_the_daemon_are_not_watched_allowed_or_set_without_it() -> None:
    plurals = ("nodeimages", "imagepulljobs", "imagelistpulljobs", "containerrecreaterequests")
    more = ("nodepodprobes", "podprobemarkers")
    assert not {name for name in watched(WITHOUT_DAEMON) if name.partition(".")[0] in (*plurals, *more)}
    # Workloads and SidecarSets keep the permission to create such objects; without agents they have no effect.
    why = {right.why for right in list_needed_rights(WITHOUT_DAEMON) if right.resource in (*plurals, *more)}
    assert all(
        text.endswith(
            (
                "to pull images ahead of updates",
                "to create and delete the jobs of its templates",
                "to restart containers that read changed annotations",
            )
        )
        for text in why
    )
    settings = ManagerSettings(gates=WITHOUT_DAEMON)
    for kind in ALL:
        result = settings.read_kind_settings(kind) if kind.settings is not None else None
        assert not getattr(result, "pre_download", False), kind.name


def resources(gates: Gates) -> set[str]:
    """Resources that webhooks review."""
    return {
        name.partition("/")[0]
        for rule in build_reviewers(make_admission_settings(gates))
        for resource_rule in rule.rules
        for name in resource_rule.resources
    }


def test_a_disabled_pod_webhook_registers_no_webhook_for_pods() -> None:
    assert "pods" in resources(Gates())
    assert "pods" not in resources(Gates.of(PodWebhook=False, ResourcesDeletionProtection=True))


def test_services_and_ingresses_are_reviewed_only_while_they_are_protected() -> None:
    guarded = {"services", "ingresses"}
    assert not guarded & resources(Gates())
    assert guarded <= resources(Gates.of(ResourcesDeletionProtection=True, PodWebhook=False))


@pytest.mark.parametrize("kind", GATED, ids=by_name)
def test_a_kind_that_is_on_is_watched_and_is_not_refused_for_its_gate(kind: Kind) -> None:
    on = with_kind(kind, on=True)
    if kind.control is not None:
        assert kind in manager_of(on).kinds
        assert str(kind.control.objects.resource) in watched(on)
    assert not any(names_gate(answer) for answer in answers(kind, on))


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_may_be_flipped_alone(gate: str) -> None:
    """Caches, permissions and webhooks follow from the other gates; no enabled kind reads without permission."""
    gates = flipped(gate)
    rights = list_needed_rights(gates)
    readable = {
        (right.group, right.plural) for right in rights if "list" in right.verbs and "watch" in right.verbs
    }
    for kind in manager_of(gates).kinds:
        assert kind.control is not None
        for views in views_of(kind.control, ManagerSettings(gates=gates).read_kind_settings(kind)):
            assert (views.resource.group, views.resource.plural) in readable, (kind.name, str(views.resource))
    assert build_reviewers(make_admission_settings(gates))


def test_every_gate_of_a_kind_exists() -> None:
    named = {name for kind in ALL for name in (*kind.gates, *kind.any_gate)}

    def asked(name: str) -> bool:
        named.add(name)
        return True

    for kind in ALL:
        build_settings(kind.settings, gates=asked)
    assert named <= set(list_all_gates())


def test_a_kind_without_a_gate_cannot_be_switched_off() -> None:
    everything_off = Gates.of(**dict.fromkeys(GATES, False))
    for kind in ALL:
        if not kind.gates and not kind.any_gate and kind.control is not None:
            assert kind in manager_of(everything_off).kinds


@pytest.mark.parametrize(
    ("kind", "gate"),
    [(kind, gate) for kind in ALL for gate in kind.rights_by_gate],
    ids=lambda item: str(item)[:40],
)
def test_a_gate_of_a_kind_brings_its_rights_and_watches_only_while_it_is_on(kind: Kind, gate: str) -> None:
    off, on = Gates(), Gates.of(**{gate: True})
    assert kind.control is not None
    assert not set(kind.rights_by_gate[gate]) & set(list_needed_rights(off))
    assert set(kind.rights_by_gate[gate]) <= set(list_needed_rights(on))
    before, after = (
        set(views_of(kind.control, ManagerSettings(gates=gates).read_kind_settings(kind)))
        for gates in (off, on)
    )
    added = {views for views in after - before if str(views.resource) not in watched(off)}
    # The API server may not serve resources whose views are marked as apart.
    assert watched(on) - watched(off) == {str(views.resource) for views in added if not views.is_apart}
    assert {right.resource for right in kind.rights_by_gate[gate]} == {
        views.resource.plural for views in added
    }


def test_every_right_has_a_reason() -> None:
    assert all(right.why for kind in ALL for right in kind.rights)
    assert all(right.why for kind in ALL for rights in kind.rights_by_gate.values() for right in rights)
