"""Invariants of every SidecarSet, for any spec, pods and order of events."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.expressions import ResourceExpressionError, check, evaluate
from pykruise.kinds.sidecarset.sidecar_contents import name_hot_pair
from pykruise.kinds.sidecarset.upgrade_choice import count_kept_back, count_most_unavailable
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.values.quantities import Quantity
from pykruise.kube.values.selectors import has_overlap, parse_selector
from support.examples import examples
from support.sidecar_world import SidecarWorld, upgraded
from support.sidecarsets import container, hot, injected, names, pod, sidecarset

SIDECARS = ("a", "b", "c", "d")
shared = st.fixed_dictionaries({"type": st.sampled_from(["enabled", "disabled"])})


@st.composite
def sidecars(draw: st.DrawFn, name: str) -> Document:
    """A sidecar with any of its settings."""
    make = draw(st.sampled_from([container, hot]))
    fields: dict[str, Any] = {"shareVolumePolicy": draw(shared)}
    if draw(st.booleans()):
        fields["podInjectPolicy"] = draw(st.sampled_from(["BeforeAppContainer", "AfterAppContainer"]))
    if draw(st.booleans()):
        fields["transferEnv"] = [{"sourceContainerName": "main", "envNames": ["A", "B"]}]
    if draw(st.booleans()):
        fields["volumeMounts"] = [{"name": draw(st.sampled_from("vw")), "mountPath": "/v"}]
    if draw(st.integers(0, 4)) == 0:
        text = draw(st.sampled_from(["cpu*50%", "cpu - 1", "max(cpu, 10m)"]))
        expression = {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": text}}}
        fields["resourcesPolicy"] = expression
    return make(name, **fields)


@st.composite
def sets(draw: st.DrawFn) -> list[Document]:
    """Up to three SidecarSets without common container names."""
    free = list(draw(st.permutations(SIDECARS)))
    sets = []
    for name in ("one", "two", "three")[: draw(st.integers(1, 3))]:
        taken = [free.pop() for _ in range(draw(st.integers(1, 2))) if free]
        if taken:
            volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
            members = [draw(sidecars(text)) for text in taken]
            sets.append(sidecarset(name, *members, volumes=volumes))
    return sets


@st.composite
def pods(draw: st.DrawFn) -> Document:
    """A pod with random fields that sidecars read."""
    main = container(
        "main",
        env=[{"name": "A", "value": "1"}],
        volumeMounts=[{"name": "data", "mountPath": draw(st.sampled_from(["/v", "/data"]))}],
        **({"resources": {"limits": {"cpu": "500m"}}} if draw(st.booleans()) else {}),
    )
    more = [container(draw(st.sampled_from(["x", "a", "b"])))] if draw(st.booleans()) else []
    return pod(main, *more, volumes=[{"name": "data", "emptyDir": {}}], unknownField={"kept": [1]})


@given(pods(), sets(), st.randoms(use_true_random=False))
@examples(0.8)
def test_injection_is_whole_repeatable_and_does_not_depend_on_the_order_of_sets(
    doc: Document, given_sets: list[Document], chance: Any
) -> None:
    before = deep_copy(doc)
    shuffled = list(given_sets)
    chance.shuffle(shuffled)
    result = _injected_or_refused(doc, given_sets)
    if isinstance(result, InjectionError):
        assert result.sidecarset
        return
    # whole: the pod has every sidecar of every SidecarSet once
    for item in given_sets:
        for sidecar in item["spec"]["containers"]:
            is_hot = sidecar.get("upgradeStrategy") is not None
            for name in name_hot_pair(sidecar["name"]) if is_hot else (sidecar["name"],):
                assert names(result).count(name) == 1
    # nothing of the pod is lost, except containers that a sidecar replaces
    assert result["spec"]["unknownField"] == before["spec"]["unknownField"]
    assert {"main"} <= set(names(result))
    own = [name for name in names(result) if name in names(before)]
    assert own == names(before)
    # no path is mounted twice
    for item in result["spec"]["containers"]:
        paths = [mount["mountPath"] for mount in item.get("volumeMounts") or ()]
        assert len(paths) == len(set(paths))
        variables = [entry["name"] for entry in item.get("env") or ()]
        assert len(variables) == len(set(variables))
    # repeatable: in any order of the sets, and with its own result as input
    assert injected(doc, *shuffled) == result
    assert names(injected(result, *given_sets) or {"spec": {"containers": []}}) == names(result)


def _injected_or_refused(doc: Document, given_sets: list[Document]) -> Document | InjectionError:
    try:
        result = injected(doc, *given_sets)
    except InjectionError as error:
        return error
    assert result is not None
    return result


amounts = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda number: f"{number}%"))


@given(
    count=st.integers(0, 8),
    partition=amounts,
    unavailable=amounts,
    is_hot=st.booleans(),
    moves=st.lists(
        st.tuples(st.sampled_from(["run", "fail", "image", "plan"]), st.integers(0, 7)), max_size=25
    ),
)
@examples(0.4)
def test_an_upgrade_keeps_its_budget_and_partition_and_settles(
    count: int, partition: Any, unavailable: Any, moves: list[tuple[str, int]], *, is_hot: bool
) -> None:
    make = hot if is_hot else container
    strategy = {"partition": partition, "maxUnavailable": unavailable}
    world = SidecarWorld(sidecarset("log", make("log", "log:1"), updateStrategy=strategy))
    world.add(count)
    world.settle()
    newest = 1
    for move, number in moves:
        name = f"web-{number}"
        match move:
            case "image":
                newest += 1
                world.change(make("log", f"log:{newest}"))
            case "run" if name in world.pods:
                world.runs(name)
            case "fail" if name in world.pods:
                world.runs(name, failing=("log", "log-1"))
            case "plan":
                _one_round(world)
    world.run_all()
    world.settle()
    # all pods are upgraded that the partition does not keep old
    managed = world.managed().values()
    waiting = [pod for pod in managed if not pod.is_updated]
    allowed = count_kept_back(partition, of=count)
    if count_most_unavailable(unavailable, of=count) > 0:
        assert len(waiting) <= allowed
    if is_hot:
        for item in managed:
            assert all(pairs.is_idle for pairs in item.pairs)


def _one_round(world: SidecarWorld) -> None:
    """Carry out a plan, and check that it keeps the budget and the partition."""
    before = world.managed()
    spec = world.view.spec
    assert spec is not None
    strategy = spec.update_strategy
    assert strategy is not None
    most = count_most_unavailable(strategy.max_unavailable, of=len(before))
    keep = count_kept_back(strategy.partition, of=len(before))
    plan = world.round()
    going = upgraded(plan)
    busy = sum(pod.is_updated and not (pod.is_consistent and pod.is_ready) for pod in before.values())
    costly = [name for name in going if before[name].is_ready]
    assert not costly or len(costly) + busy <= most
    waiting = [name for name, pod in before.items() if not pod.is_updated]
    assert not going or len(waiting) - len(going) >= keep
    # a second plan does not upgrade the same pods again
    assert not set(upgraded(world.plan())) & set(going)


texts = st.lists(
    st.sampled_from(
        ["cpu", "1", "50%", "100m", "2Gi", "+", "-", "*", "/", "(", ")", "max(", "min(", ",", "x"]
    ),
    max_size=12,
).map(" ".join)


@given(st.one_of(texts, st.text(max_size=40)), st.integers(0, 10**15))
def test_an_expression_is_a_quantity_or_an_error_and_nothing_else(text: str, milli: int) -> None:
    try:
        check(text, variable="cpu")
    except ResourceExpressionError:
        return
    try:
        quantity = evaluate(text, variable="cpu", amount=Quantity(milli * 10**6))
    except ResourceExpressionError as error:
        problem = str(error)
    else:
        problem = ""
        assert quantity.nano >= 0
        assert Quantity.parse(str(quantity)).nano >= 0
    assert not problem or "must not be negative" in problem


labels = st.sampled_from(["x", "y", "z"])
requirements = st.lists(
    st.one_of(
        st.builds(
            lambda key, operator, values: {"key": key, "operator": operator, "values": values},
            st.sampled_from("ab"),
            st.sampled_from(["In", "NotIn"]),
            st.lists(labels, min_size=1, max_size=3),
        ),
        st.builds(
            lambda key, operator: {"key": key, "operator": operator},
            st.sampled_from("ab"),
            st.sampled_from(["Exists", "DoesNotExist"]),
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(requirements, requirements)
def test_selectors_meet_exactly_when_some_object_has_the_labels_for_both(
    labels: list[Document], other: list[Document]
) -> None:
    first, second = (parse_selector({"matchExpressions": each}) for each in (labels, other))
    values = [None, "x", "y", "z", "none of them"]
    objects = (
        {key: value for key, value in (("a", a), ("b", b)) if value is not None}
        for a in values
        for b in values
    )
    assert has_overlap(first, second) is any(first.matches(each) and second.matches(each) for each in objects)
