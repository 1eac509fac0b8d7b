"""Invariants of every ResourceDistribution, for any namespaces and any objects in them.

A small world carries out plans, some of them only partly, as if the manager was killed. The test computes the target
namespaces independently, according to the documentation.
"""

import copy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from support.distribution_world import UID, DistributionWorld, is_copy, named, resource
from support.examples import examples

NAMES = ("a", "b", "c", "d", "kube-public", "kube-system")
MISSING = "missing"
LABELS: tuple[dict[str, str], ...] = ({}, {"team": "x"}, {"team": "y"})

some_names = st.lists(st.sampled_from((*NAMES, MISSING)), unique=True, max_size=4)
targets = st.fixed_dictionaries(
    {},
    optional={
        "allNamespaces": st.booleans(),
        "includedNamespaces": some_names.map(lambda names: named(*names)),
        "excludedNamespaces": some_names.map(lambda names: named(*names)),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "x"}}]),
    },
)
contents = st.builds(
    lambda data, immutable: resource(data, immutable=immutable),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), max_size=3),
    st.booleans(),
)
mutable = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), max_size=3).map(resource)
"""Contents of stored copies. An immutable copy with other contents is never changed, and the status names it."""

there = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(mutable, st.sampled_from([UID, "other", ""])), max_size=len(NAMES)
)


@st.composite
def worlds(draw: st.DrawFn) -> DistributionWorld:
    labels = {name: draw(st.sampled_from(LABELS)) for name in NAMES}
    world = DistributionWorld(draw(targets), labels, wanted=draw(contents))
    world.terminating = set(draw(st.lists(st.sampled_from("abcd"), max_size=2)))
    for name, (doc, owner) in draw(there).items():
        world.put(name, doc, owner=owner)
    return world


def target_names(world: DistributionWorld) -> set[str]:
    """The target namespaces: all, named or selected ones, without excluded ones and the system's."""
    given: dict[str, Any] = world.document["spec"]["targets"]

    def listed(field: str) -> set[str]:
        return {item["name"] for item in (given.get(field) or {}).get("list", ())}

    names = set(world.namespaces) if given.get("allNamespaces") else listed("includedNamespaces")
    if given.get("namespaceSelector"):
        names |= {name for name, labels in world.namespaces.items() if labels == {"team": "x"}}
    return names - listed("excludedNamespaces") - {"kube-system", "kube-public"}


def foreign(world: DistributionWorld) -> dict[str, Any]:
    return copy.deepcopy({name: doc for name, doc in world.objects.items() if not is_copy(doc)})


@given(worlds())
@examples(2)
def test_at_rest_every_target_has_its_copy_and_no_other_namespace_has_one(world: DistributionWorld) -> None:
    others = foreign(world)
    left = {name for name in world.terminating if name in world.objects}

    world.settle()

    wanted = target_names(world) & set(world.namespaces) - world.terminating - set(others)
    ours = {name for name, doc in world.objects.items() if is_copy(doc)}
    assert ours - left == wanted
    expected = world.document["spec"]["resource"]
    for name in wanted:
        result = world.objects[name]
        assert (result.get("data") or {}) == expected["data"]
        assert bool(result.get("immutable")) == bool(expected.get("immutable"))


@given(worlds())
@examples(1)
def test_an_executed_plan_settles(world: DistributionWorld) -> None:
    world.carry_out(world.plan())

    plan = world.plan()
    world.carry_out(plan)  # the status counts the written copies

    assert not list(plan.steps)
    assert world.plan().status == world.status
    wanted = target_names(world)
    succeeded = {name for name in wanted if is_copy(world.objects.get(name, {"metadata": {}}))}
    succeeded -= world.terminating
    assert world.status["desired"] == len(wanted)
    assert world.status["succeeded"] == len(succeeded)
    assert world.status["failed"] == len(wanted - succeeded)


@given(worlds(), st.lists(st.integers(0, 3), max_size=4))
@examples(1)
def test_resources_of_other_owners_are_never_written(
    world: DistributionWorld, killed_after: list[int]
) -> None:
    others, before = (
        foreign(world),
        {name: copy.deepcopy(world.objects[name]) for name in world.terminating & set(world.objects)},
    )

    for writes in killed_after:
        world.carry_out(world.plan(), writes=writes)
    world.settle()

    assert {name: world.objects.get(name) for name in others} == others
    assert {name: world.objects.get(name) for name in before} == before, "nothing in namespaces that go"


@given(worlds())
@examples(1)
def test_a_namespace_is_written_to_once_and_only_where_something_differs(world: DistributionWorld) -> None:
    places = [step.action.key.namespace for step in world.plan().steps]
    assert len(places) == len(set(places))
    assert set(places) <= set(world.namespaces) - world.terminating - set(foreign(world))


@given(worlds(), st.lists(st.integers(0, 3), min_size=1, max_size=4))
@examples(1)
def test_plans_that_were_interrupted_end_like_one_that_was_not(
    world: DistributionWorld, killed_after: list[int]
) -> None:
    whole = copy.deepcopy(world).settle()

    for writes in killed_after:
        world.carry_out(world.plan(), writes=writes)
    world.settle()

    assert world.contents() == whole.contents()
    assert world.status == whole.status


@given(worlds(), st.integers(1, 1000))
@examples(1)
def test_the_order_of_what_is_read_does_not_matter(world: DistributionWorld, order: int) -> None:
    assert world.plan(order=order) == world.plan()


@given(worlds(), targets, contents)
@examples(1)
def test_another_spec_leaves_what_a_new_distribution_of_that_spec_would_have(
    world: DistributionWorld, other_targets: dict[str, Any], other: dict[str, Any]
) -> None:
    assume(not world.document["spec"]["resource"].get("immutable"))
    fresh = copy.deepcopy(world)
    fresh.change(resource=other, targets=other_targets)
    fresh.settle()

    world.settle()
    world.change(resource=other, targets=other_targets)
    world.settle()

    assert world.contents(annotations=False) == fresh.contents(annotations=False)
    assert world.status == fresh.status
