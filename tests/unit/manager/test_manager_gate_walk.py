"""Every feature gate, on and off, over every kind there is.

A gate that is off leaves no watch, no right, and no webhook that does anything but refuse. Kinds are looped over, so
one that comes later is covered.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pykruise.admission.reviewers import reviewers
from pykruise.admission.settings import admission_settings
from pykruise.kinds import kinds
from pykruise.kinds.gates import GATES, Gates
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest
from pykruise.kube.client import Client
from pykruise.kube.resources import Resource
from pykruise.kube.rights import Right
from pykruise.manager.manager import Manager
from pykruise.manager.roles import needed
from pykruise.manager.settings import Settings
from pykruise.plans.assemble import views_of
from pykruise.plans.kind import Kind
from pykruise.plans.views import SHARED
from pykruise.pods.settings import settings_from

ALL = tuple(kinds())
GATED = [one for one in ALL if one.gates or one.any_gate]


def flipped(name: str) -> Gates:
    """The defaults, but for one gate."""
    return Gates.of(**{name: not GATES[name].default})


def with_kind(kind: Kind, *, on: bool) -> Gates:
    """Gates with which this kind is switched on, or off; all others as they are by themselves."""
    return Gates.of(**dict.fromkeys((*kind.gates, *kind.any_gate), on))


def manager_of(gates: Gates) -> Manager:
    """Built and not run: what it would watch is known then."""
    nowhere: Any = None
    return Manager(
        Client(nowhere, rng=random.Random(1)), settings=Settings(gates=gates), rng=random.Random(1)
    )


def watched(gates: Gates) -> set[str]:
    return set(manager_of(gates).stats().caches)


def read_by_others(kind: Kind, gates: Gates) -> set[str]:
    """What other kinds that are on look at, and what every manager looks at."""
    settings = Settings(gates=gates)
    others = (one for one in ALL if one is not kind and one.is_enabled(gates.__getitem__))
    return {
        str(views.resource)
        for one in others
        if one.control is not None
        for views in views_of(one.control, settings.of(one))
    } | {str(views.resource) for views in SHARED}


def verbs(rights: list[Right]) -> set[tuple[Any, ...]]:
    """Rights without their reasons, verb by verb."""
    return {
        (one.group, one.resource, verb, one.names, one.in_namespace) for one in rights for verb in one.verbs
    }


def creation(resource: Resource) -> AdmissionRequest:
    doc = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, "spec": {}}
    return AdmissionRequest(
        uid="1", operation="CREATE", resource=resource, namespace="shop", name="x", object=doc
    )


def answers(kind: Kind, gates: Gates) -> Iterator[AdmissionAnswer]:
    """What the webhooks of a kind say to a new object."""
    for rule in reviewers(admission_settings(gates)):
        names = {(group, name) for one in rule.rules for group in one.groups for name in one.resources}
        operations = {operation for one in rule.rules for operation in one.operations}
        if (kind.resource.group, kind.resource.plural) in names and "CREATE" in operations:
            yield asyncio.run(_review(rule.reviewer, creation(kind.resource)))


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
        own = {str(views.resource) for views in views_of(kind.control, Settings(gates=off).of(kind))}
        assert not (own - read_by_others(kind, off)) & watched(off)


@pytest.mark.parametrize("kind", GATED, ids=by_name)
def test_a_kind_that_is_off_brings_no_right(kind: Kind) -> None:
    off, on = with_kind(kind, on=False), with_kind(kind, on=True)
    assert not set(kind.rights) & set(needed(off))
    assert verbs(needed(off)) <= verbs(needed(on))
    assert set(kind.rights) <= set(needed(on))


@pytest.mark.parametrize("kind", [one for one in GATED if one.versions], ids=by_name)
def test_webhooks_of_a_kind_that_is_off_refuse_by_the_name_of_its_gate_and_do_nothing_else(
    kind: Kind,
) -> None:
    off = list(answers(kind, with_kind(kind, on=False)))
    assert all(one.object is None for one in off if names_gate(one))
    if any(True for _ in answers(kind, with_kind(kind, on=True))):
        assert any(names_gate(one) for one in off)


@pytest.mark.parametrize("kind", GATED, ids=by_name)
def test_a_kind_that_is_on_is_watched_and_is_not_refused_for_its_gate(kind: Kind) -> None:
    on = with_kind(kind, on=True)
    if kind.control is not None:
        assert kind in manager_of(on).kinds
        assert str(kind.control.objects.resource) in watched(on)
    assert not any(names_gate(one) for one in answers(kind, on))


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_may_be_flipped_alone(gate: str) -> None:
    """Caches, rights and webhooks are made of what is left; no kind that is on reads what has no right."""
    gates = flipped(gate)
    rights = needed(gates)
    readable = {(one.group, one.plural) for one in rights if "list" in one.verbs and "watch" in one.verbs}
    for kind in manager_of(gates).kinds:
        assert kind.control is not None
        for views in views_of(kind.control, Settings(gates=gates).of(kind)):
            assert (views.resource.group, views.resource.plural) in readable, (kind.name, str(views.resource))
    assert reviewers(admission_settings(gates))


def test_every_gate_that_a_kind_names_is_one() -> None:
    named = {name for kind in ALL for name in (*kind.gates, *kind.any_gate)}

    def asked(name: str) -> bool:
        named.add(name)
        return True

    for kind in ALL:
        settings_from(kind.settings, gates=asked)
    assert named <= set(GATES)


def test_a_kind_without_a_gate_cannot_be_switched_off() -> None:
    everything_off = Gates.of(**dict.fromkeys(GATES, False))
    for kind in ALL:
        if not kind.gates and not kind.any_gate and kind.control is not None:
            assert kind in manager_of(everything_off).kinds


def test_rights_are_values_that_say_what_for() -> None:
    assert all(one.why for kind in ALL for one in kind.rights)
