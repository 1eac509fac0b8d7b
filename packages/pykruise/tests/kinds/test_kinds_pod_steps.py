"""Each kind's declaration for pod admission fits its steps."""

import random
from typing import Any

import pytest

from pykruise.admission.pods.chain import list_participants
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import GATES, Gates
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.resources import PODS
from pykruise.manager.roles import list_webhook_rights
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import PodSteps, ReaderPlace
from support.pod_chains import step_context

TAKING_PART = [kind for kind in list_kinds() if kind.pods is not None]
ALL_ON = Gates.of(**dict.fromkeys(GATES, True))


def by_name(kind: Kind) -> str:
    return kind.name


def steps_of(kind: Kind) -> PodSteps:
    assert kind.pods is not None
    return kind.pods


def made(kind: Kind) -> list[Any]:
    """The steps of the kind, without a reader."""
    steps = steps_of(kind)
    common = steps.shares(step_context(kind))
    return [make(common) for make in (steps.mutate, steps.judge) if make is not None]


def test_pod_steps_of_kinds_have_unique_orders_and_names() -> None:
    orders = [steps_of(kind).order for kind in TAKING_PART]
    assert len(set(orders)) == len(orders)
    assert len({steps_of(kind).name for kind in TAKING_PART}) == len(TAKING_PART)
    assert [steps.order for _, steps in list_participants(ALL_ON.__getitem__)] == sorted(orders)


def test_each_webhook_of_pods_is_carried_by_one_kind() -> None:
    carried = [steps_of(kind).carries for kind in TAKING_PART if steps_of(kind).carries is not None]
    assert sorted(carried) == ["mutating", "validating"]


@pytest.mark.parametrize("kind", TAKING_PART, ids=by_name)
def test_a_kind_with_match_conditions_from_objects_declares_its_selection(kind: Kind) -> None:
    nothing: dict[str, tuple[()]] = {kind.resource.kind: ()}
    depends = any(
        step.build_match_condition({}) != step.build_match_condition(nothing) for step in made(kind)
    )
    selects = steps_of(kind).selects
    assert depends == (selects is not None)
    assert (selects is not None) == (steps_of(kind).reads is not None)
    if selects is not None:
        assert selects.views.resource == kind.resource


@pytest.mark.parametrize("kind", TAKING_PART, ids=by_name)
def test_webhooks_may_read_what_its_readers_read(kind: Kind) -> None:
    if steps_of(kind).reads is not None:
        verbs = {
            verb
            for right in list_webhook_rights(ALL_ON)
            if (right.group, right.resource) == (kind.resource.group, kind.resource.plural)
            for verb in right.verbs
        }
        assert {"get", "list", "watch"} <= verbs
    assert set(steps_of(kind).rights) <= set(list_webhook_rights(ALL_ON))


@pytest.mark.parametrize("kind", TAKING_PART, ids=by_name)
def test_both_readers_of_a_kind_have_the_same_methods(kind: Kind) -> None:
    reads = steps_of(kind).reads
    if reads is None:
        return

    class Nowhere:
        """A transport without requests."""

    client = Client(Nowhere())  # type: ignore[arg-type]
    place = ReaderPlace(
        client=lambda: client, namespace="kruise-system", clock=read_system_clock, rng=random.Random(1)
    )
    live, cached = reads.live(place), reads.cached(place)
    questions = {name for name in dir(live) if not name.startswith("_") and callable(getattr(live, name))}
    assert questions <= set(dir(cached))
    assert cached.objects.list_problems()


@pytest.mark.parametrize("kind", TAKING_PART, ids=by_name)
def test_a_kind_that_announces_its_selection_has_a_validating_review(kind: Kind) -> None:
    selects = steps_of(kind).selects
    if selects is not None and selects.announces is not None:
        assert kind.reviews.validating is not None


@pytest.mark.parametrize("kind", TAKING_PART, ids=by_name)
def test_a_kind_that_protects_pods_has_a_component_and_a_step_that_judges(kind: Kind) -> None:
    steps = steps_of(kind)
    if steps.prevention is not None:
        assert steps.component
        assert steps.judge is not None


def test_a_kind_takes_no_part_without_its_gates() -> None:
    off = Gates.of(
        WorkloadSpread=False,
        PodUnavailableBudgetDeleteGate=False,
        EnhancedLivenessProbe=False,
        EnablePodProbeMarkerOnServerless=False,
    )
    left = {part.kind.name for part in list_participants(off.__getitem__)}
    gated = {kind.name for kind in TAKING_PART if kind.gates or kind.any_gate or steps_of(kind).gates}
    assert left == {kind.name for kind in TAKING_PART} - gated
    assert all(kind.resource == PODS or kind.versions for kind in TAKING_PART)
