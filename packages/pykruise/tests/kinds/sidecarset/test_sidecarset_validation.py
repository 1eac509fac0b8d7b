"""SidecarSets that admission refuses, with the field."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.revisions import SET_LABEL, candidate_of
from pykruise.kube.documents import Document
from pykruise.pods.lifecycle.ordering import MOST_WEIGHTS
from pykruise.pods.workload.revisions import RevisionView
from support.sidecarsets import canary, container, hot, problems, sidecarset, view


def errors(
    doc: Document, *others: Document, old: Document | None = None, **facts: Any
) -> list[tuple[str, str]]:
    """Reason and field of every error, of a document with its defaults."""
    stored = add_defaults(old) if old is not None else None
    causes = problems(add_defaults(doc), *(view(entry) for entry in others), old=stored, **facts)
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes]


def test_a_plain_sidecarset_is_accepted() -> None:
    assert errors(sidecarset("log", container("log"), namespaceSelector={"matchLabels": {"a": "b"}})) == []


# ── metadata and canaries ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "is_wrong"), [("a.b", True), ("a" * 63, False), ("a" * 64, True), ("a-1", False)]
)
def test_names_are_short_and_without_dots(name: str, *, is_wrong: bool) -> None:
    """sidecarset case 11"""
    assert errors(sidecarset(name, container("log"))) == [("Invalid", "metadata.name")] * is_wrong


def test_a_name_may_still_be_generated() -> None:
    doc = sidecarset("", container("log"), metadata={"name": None, "generateName": "log-"})
    assert errors(doc) == []
    (cause,) = problems({"spec": add_defaults(doc)["spec"]})
    assert cause.field == "metadata.name"


def test_a_sidecarset_with_a_generated_name_has_no_revisions() -> None:
    """Even a revision without the label of a SidecarSet does not count."""
    choice = {"revision": {"revisionName": "s-1"}}
    doc = sidecarset("", container("log"), metadata={"name": None}, injectionStrategy=choice)
    doc["metadata"]["generateName"] = "s-"
    stray = msgspec.structs.replace(revision("s-1"), labels={})
    assert errors(doc, revisions=[stray]) == [("Invalid", "spec.injectionStrategy.revision")]


@pytest.mark.parametrize(
    ("probe", "wrong"),
    [
        ({"tcpSocket": {"port": 80}}, ["Invalid successThreshold"]),
        (
            {"httpGet": {"port": 80}},
            ["Required httpGet.path", "NotSupported httpGet.scheme", "Invalid successThreshold"],
        ),
        ({"successThreshold": 1}, ["Required "]),
        ({"tcpSocket": {"port": 80}, "successThreshold": 1}, []),
        ({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "successThreshold": 1}, []),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_a_startup_probe_has_no_defaults_and_must_be_complete(
    field: str, probe: Document, wrong: list[str]
) -> None:
    """sidecarset section 4.3"""
    restart = {"restartPolicy": "Always"} if field == "initContainers" else {}
    log = container("log", startupProbe=probe, livenessProbe={"tcpSocket": {"port": 80}}, **restart)
    result = errors(sidecarset("s", updateStrategy={"type": "NotUpdate"}, **{field: [log]}))
    place = f"spec.{field}[0].startupProbe"
    assert [f"{reason} {path[len(place) + 1 :]}" for reason, path in result] == wrong
    assert all(path.startswith(place) for _, path in result)


def test_a_canary_needs_a_base_that_is_not_a_canary_and_the_strategy_not_update() -> None:
    """sidecarset case 24"""
    base = sidecarset("base", container("log"))
    good = canary("trial", container("log"), base="base")
    assert errors(good, base) == []
    for doc, others in (
        (good, []),
        (canary("trial", container("log"), base="trial"), [base]),
        (canary("two", container("log"), base="trial"), [base, good]),
        (canary("trial", container("log"), base="base", updateStrategy={"type": "RollingUpdate"}), [base]),
    ):
        assert errors(doc, *others) == [("Invalid", "metadata")]


@pytest.mark.parametrize(
    ("base", "others", "problem"),
    [
        ("trial", [], "base sidecarSet cannot be itself"),
        ("none", [], "base sidecarSet is not found"),
        ("first", ["first"], "base sidecarSet cannot be canary"),
    ],
)
def test_a_wrong_base_is_reported_with_the_reason(base: str, others: list[str], problem: str) -> None:
    """section 5.1"""
    doc = canary("trial", container("log"), base=base)
    canaries = (view(canary(name, container("log"), base="log")) for name in others)
    (cause,) = problems(add_defaults(doc), *canaries)
    assert cause.message.endswith(problem)


def test_a_stored_sidecarset_cannot_become_a_canary() -> None:
    """section 5.1: that the base has changed is an error of canaries"""
    base = sidecarset("base", container("log"))
    old = sidecarset("trial", container("log"), updateStrategy={"type": "NotUpdate"})
    trial = canary("trial", container("log"), base="base")
    assert errors(trial, base, old=old) == [("Invalid", "metadata")]
    assert errors(trial, base, old=trial) == []


@pytest.mark.parametrize(("named", "expected"), [("base", []), ("other", [("Invalid", "metadata")])])
def test_a_canary_that_was_switched_off_can_be_switched_on_again(named: str, expected: list[Any]) -> None:
    """section 5.1: the base in the annotation of the stored object counts"""
    base = sidecarset("base", container("log"))
    trial = canary("trial", container("log"), base="base")
    off = canary("trial", container("log"), base=named)
    off["metadata"]["annotations"]["apps.kruise.io/sidecarset-canary"] = "false"
    assert errors(trial, base, old=off) == expected


def test_an_unchanged_canary_outlives_its_base() -> None:
    trial = canary("trial", container("log"), base="base")
    labelled = canary("trial", container("log"), base="base")
    labelled["metadata"]["labels"] = {"team": "a"}
    assert errors(labelled, old=trial) == []
    changed = canary("trial", container("log", image="log:2"), base="base")
    assert errors(changed, old=trial) == [("Invalid", "metadata")]


def test_a_canarys_base_cannot_be_changed() -> None:
    """sidecarset case 25"""
    bases = [sidecarset(name, container("log")) for name in ("one", "two")]
    old = canary("trial", container("log"), base="one")
    assert errors(canary("trial", container("log"), base="two"), *bases, old=old) == [("Invalid", "metadata")]


def test_a_base_can_be_updated_while_it_has_a_canary() -> None:
    """pitfall 10"""
    base, trial = sidecarset("base", container("log")), canary("trial", container("log"), base="base")
    changed = sidecarset("base", container("log", "log:2"))
    assert errors(changed, base, trial, old=base) == []


# ── spec ─────────────────────────────────────────────────────────────────────


def test_native_sidecars_cannot_be_rolled_out() -> None:
    """sidecarset case 5"""
    native = [container("a", restartPolicy="Always"), container("b", restartPolicy="Always")]
    assert errors(sidecarset("s", initContainers=native)) == [("Required", "spec.updateStrategy")] * 2
    assert errors(sidecarset("s", initContainers=native, updateStrategy={"type": "NotUpdate"})) == []


def test_a_selector_is_required_and_selects_something() -> None:
    """sidecarset case 6"""
    assert errors(sidecarset("s", container("a"), selector={})) == [("Invalid", "spec.selector")]
    assert errors(sidecarset("s", container("a"), selector=None)) == [("Required", "spec.selector")]
    bad = {"matchExpressions": [{"key": "a", "operator": "Nope"}]}
    assert errors(sidecarset("s", container("a"), selector=bad)) == [("Invalid", "spec.selector")]
    assert errors(sidecarset("s", container("a"), namespaceSelector={})) == [
        ("Invalid", "spec.namespaceSelector")
    ]


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}])
def test_a_sidecarset_without_a_spec_is_refused_unless_already_stored(spec: Document) -> None:
    doc = {"metadata": {"name": "s"}, **spec}
    assert [problem.field for problem in problems(doc)] == ["spec.selector", "spec"]
    assert problems({**doc, "metadata": {"name": "s", "labels": {"a": "b"}}}, old=doc) == []


def test_a_sidecarset_has_at_least_one_container() -> None:
    assert ("Required", "spec") in errors(sidecarset("s"))
    assert errors(sidecarset("s", initContainers=[container("a")])) == []


def revision(name: str, *, owner: str = "s", **labels: str) -> RevisionView:
    restored = candidate_of(sidecarset(owner, container("a"))["spec"])
    return RevisionView(
        namespace="kruise-system",
        name=name,
        uid=name,
        resource_version=1,
        number=1,
        labels={SET_LABEL: owner, **labels},
        template=restored.template,
        meaning=restored.meaning,
    )


def test_the_revision_to_inject_must_be_stored_and_be_its_own() -> None:
    """sidecarset case 16, pitfall 16"""

    def doc(**choice: str) -> Document:
        return sidecarset("s", container("a"), injectionStrategy={"revision": choice})

    field = "spec.injectionStrategy.revision"
    known = [
        revision("s-1", **{"apps.kruise.io/sidecarset-custom-version": "v1"}),
        revision("t-1", owner="t"),
    ]
    assert errors(doc(revisionName="s-1"), revisions=known) == []
    assert errors(doc(customVersion="v1"), revisions=known) == []
    for choice in ({"revisionName": "s-2"}, {"revisionName": "t-1"}, {"customVersion": "v2"}, {}):
        assert errors(doc(**choice), revisions=known) == [("Invalid", field)]
        old = sidecarset("s", container("a"))
        assert errors(doc(**choice), old=old, revisions=known) == [("Invalid", field)]


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"revisionName": "s-9"}, '"s-9": Cannot find specific ControllerRevision'),
        ({"customVersion": "v9"}, '"v9": Cannot find specific ControllerRevision'),
        ({"revisionName": "s-9", "customVersion": "v9"}, '"s-9": Cannot find specific ControllerRevision'),
        ({}, '"": revisionName and customVersion cannot be empty simultaneously'),
    ],
)
def test_a_missing_revision_is_named(choice: Document, problem: str) -> None:
    doc = sidecarset("s", container("a"), injectionStrategy={"revision": choice})
    (cause,) = problems(add_defaults(doc))
    assert cause.message == f"Invalid value: {problem}"


@pytest.mark.parametrize(("policy", "is_wrong"), [("Always", False), ("Partial", False), ("Never", True)])
def test_a_revision_is_injected_always_or_partially(policy: str, *, is_wrong: bool) -> None:
    """section 5.2"""
    choice = {"revisionName": "s-1", "policy": policy}
    doc = sidecarset("s", container("a"), injectionStrategy={"revision": choice})
    expected = [("NotSupported", "spec.injectionStrategy.revision.policy")] * is_wrong
    assert errors(doc, revisions=[revision("s-1")]) == expected


# ── update strategy ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(("partition", "expected"), [(10, 1), ("0%", 1), ("10%", 1), (0, 0), (None, 0)])
def test_a_selector_excludes_a_partition(partition: Any, expected: int) -> None:
    """sidecarset case 7"""
    strategy = {"selector": {"matchLabels": {"a": "b"}}, "partition": partition}
    assert (
        errors(sidecarset("s", container("a"), updateStrategy=strategy))
        == [("Invalid", "spec.updateStrategy")] * expected
    )


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": [{"key": "a", "operator": "Nope"}]}])
def test_a_selector_of_upgrades_can_be_read_and_selects_something(selector: Document) -> None:
    """section 5.3"""
    result = errors(sidecarset("s", container("a"), updateStrategy={"selector": selector}))
    assert result == [("Invalid", "spec.updateStrategy.selector")]


def test_the_number_of_weights_is_limited_except_for_stored_ones() -> None:
    def doc(count: int, **spec: Any) -> Document:
        terms = [weighted(1, {"matchLabels": {"a": str(number)}}) for number in range(count)]
        priority = {"weightPriority": terms}
        return sidecarset("s", container("a"), updateStrategy={"priorityStrategy": priority}, **spec)

    assert errors(doc(MOST_WEIGHTS)) == []
    path = "spec.updateStrategy.priorityStrategy.weightPriority"
    assert errors(doc(MOST_WEIGHTS + 1)) == [("TooMany", path)]
    stored = doc(MOST_WEIGHTS + 1)
    assert errors(doc(MOST_WEIGHTS + 1, revisionHistoryLimit=5), old=stored) == []


@pytest.mark.parametrize("field", ["partition", "maxUnavailable"])
@pytest.mark.parametrize(
    ("value", "is_wrong"),
    [(-1, True), ("5", True), ("-5%", True), ("5.5%", True), (0, False), ("50%", False)],
)
def test_amounts_are_numbers_or_percentages(field: str, value: Any, *, is_wrong: bool) -> None:
    """sidecarset case 8"""
    expected = [("Invalid", f"spec.updateStrategy.{field}")] if is_wrong else []
    assert errors(sidecarset("s", container("a"), updateStrategy={field: value})) == expected


def weighted(weight: int = 1, selector: Any = None) -> Document:
    return {"weight": weight, "matchSelector": selector or {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    "priority",
    [
        {"weightPriority": [weighted(101)]},
        {"weightPriority": [weighted(-1)]},
        {"weightPriority": [{"weight": 1, "matchSelector": {}}]},
        {"weightPriority": [weighted()], "orderPriority": [{"orderedKey": "k"}]},
        {"orderPriority": [{"orderedKey": ""}]},
    ],
)
def test_bad_priorities_are_refused(priority: Document) -> None:
    """sidecarset case 14"""
    result = errors(sidecarset("s", container("a"), updateStrategy={"priorityStrategy": priority}))
    assert result == [("Required", "spec.updateStrategy.priorityStrategy")]


def test_scatter_terms_have_unique_non_empty_keys() -> None:
    """sidecarset case 14"""
    for terms in ([{"key": "a", "value": "b"}] * 2, [{"key": "", "value": "b"}]):
        result = errors(sidecarset("s", container("a"), updateStrategy={"scatterStrategy": terms}))
        assert result == [("Required", "spec.updateStrategy.scatterStrategy")]


def test_the_strategy_is_not_validated_under_not_update() -> None:
    strategy = {"type": "NotUpdate", "maxUnavailable": -1}
    assert errors(sidecarset("s", container("a"), updateStrategy=strategy)) == []


# ── sidecars ─────────────────────────────────────────────────────────────────


def test_mounts_refer_to_volumes_of_the_sidecarset() -> None:
    """sidecarset case 9"""
    mount = [{"name": "v", "mountPath": "/v"}]
    assert errors(sidecarset("s", container("a", volumeMounts=mount))) == [
        ("NotFound", "spec.containers[0].volumeMounts[0].name")
    ]
    assert errors(sidecarset("s", container("a", volumeMounts=mount), volumes=[{"name": "v"}])) == []


def test_a_device_and_a_mount_do_not_share_a_path() -> None:
    """sidecarset case 10"""
    doc = sidecarset(
        "s",
        container(
            "a",
            volumeMounts=[{"name": "v", "mountPath": "/x"}],
            volumeDevices=[{"name": "v", "devicePath": "/x"}],
        ),
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    )
    assert errors(doc) == [
        ("Invalid", "spec.containers[0].volumeMounts[0].mountPath"),
        ("Invalid", "spec.containers[0].volumeMounts[0].name"),
        ("Invalid", "spec.containers[0].volumeDevices[0].name"),
        ("Invalid", "spec.containers[0].volumeDevices[0].devicePath"),
    ]


def test_the_grace_period_of_the_pods_limits_a_hook_and_no_other() -> None:
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 600}}}}
    assert errors(sidecarset("s", container("a", **hook))) == []
    hook["lifecycle"]["preStop"]["sleep"]["seconds"] = -1
    assert errors(sidecarset("s", container("a", **hook))) == [
        ("Invalid", "spec.containers[0].lifecycle.preStop.sleep")
    ]


def test_an_invalid_stored_sidecar_does_not_block_changes_of_other_fields() -> None:
    """A rule for pods may be newer than the SidecarSet."""
    bad = container("a", securityContext={"seccompProfile": {"type": "RuntimDefault"}})
    old = sidecarset("s", bad)
    assert errors(old) == [("NotSupported", "spec.containers[0].securityContext.seccompProfile.type")]
    assert errors(sidecarset("s", bad, updateStrategy={"paused": True}), old=old) == []


def test_no_container_may_be_added_or_renamed_but_one_may_be_removed() -> None:
    """sidecarset case 12"""
    old = sidecarset("s", container("a"), container("b"))
    assert errors(sidecarset("s", container("a"), container("new")), old=old) == [
        ("Invalid", "spec.containers.name")
    ]
    assert errors(sidecarset("s", container("b")), old=old) == []
    assert errors(sidecarset("s", container("a"), initContainers=[container("i")]), old=old) == []


def test_the_upgrade_type_stays() -> None:
    """sidecarset case 13"""
    assert errors(sidecarset("s", hot("a")), old=sidecarset("s", container("a"))) == [
        ("Invalid", "spec.containers.upgradeStrategy.upgradeType")
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.labels['cName']", []),
        ("metadata.annotations['Example.com/Key']", []),
        ("metadata.name", ["Invalid"]),
        ("spec.nodeName", ["Invalid"]),
        ("metadata.labels['not a key']", ["Invalid"]),
        ("", ["Required"]),
    ],
)
def test_transferred_variables_must_reference_a_label_or_annotation(path: str, expected: list[str]) -> None:
    """sidecarset case 15"""
    item = {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": path}}, "envName": "A"}
    assert [reason for reason, _ in errors(sidecarset("s", container("a", transferEnv=[item])))] == expected


def policy(regex: str = ".*", resources: Any = None, **bounds: Any) -> Document:
    fields = {"targetContainersMode": "sum", "targetContainersNameRegex": regex, "resourcesExpr": bounds}
    return container("a", resourcesPolicy=fields, **({"resources": resources} if resources else {}))


@pytest.mark.parametrize(
    ("sidecar", "field"),
    [
        (policy(limits={"cpu": "cpu"}, resources={"requests": {"cpu": "1"}}), ""),
        (policy("[x(", limits={"cpu": "cpu"}), ".targetContainersNameRegex"),
        (policy(), ".resourcesExpr"),
        (policy(limits={"cpu": "max(cpu)"}), ".resourcesExpr.limits.cpu"),
        (policy(requests={"memory": "storage"}), ".resourcesExpr.requests.memory"),
        (policy(limits={"cpu": "((cpu)"}), ".resourcesExpr.limits.cpu"),
        (policy(limits={"memory": "cpu"}), ".resourcesExpr.limits.memory"),
    ],
)
def test_a_resources_policy_that_cannot_be_evaluated_is_refused(sidecar: Document, field: str) -> None:
    """sidecarset case 26"""
    assert errors(sidecarset("s", sidecar)) == [("Invalid", f"spec.containers[0].resourcesPolicy{field}")]


def test_an_empty_expression_of_targets_selects_all() -> None:
    """section 5.4"""
    assert errors(sidecarset("s", policy("", limits={"cpu": "cpu"}))) == []


def test_only_init_containers_that_keep_running_have_a_policy() -> None:
    """sidecarset case 27"""
    sidecar = policy(limits={"cpu": "cpu"})
    strategy = {"type": "NotUpdate"}
    assert errors(sidecarset("s", initContainers=[sidecar], updateStrategy=strategy)) == [
        ("Invalid", "spec.initContainers[0].resourcesPolicy")
    ]
    native = {**sidecar, "restartPolicy": "Always"}
    assert errors(sidecarset("s", initContainers=[native], updateStrategy=strategy)) == []


def test_a_hot_sidecar_needs_an_empty_image_unless_it_is_stored_without() -> None:
    """pitfall 15"""
    without = sidecarset("s", hot("a", empty=""))
    assert errors(without) == [("Required", "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage")]
    assert errors(sidecarset("s", hot("a", "a:2", empty="")), old=without) == []


def test_the_names_of_a_hot_pair_are_free() -> None:
    assert errors(sidecarset("s", hot("mesh"), container("mesh-2"))) == [
        ("Duplicate", "spec.containers[0].name")
    ]
    assert errors(sidecarset("s", hot("m" * 62))) == [("Invalid", "spec.containers[0].name")]


def test_bad_enumerations_are_refused_under_their_field() -> None:
    doc = sidecarset("s", container("a", podInjectPolicy="Beside", shareVolumePolicy={"type": "yes"}))
    assert errors(doc) == [
        ("Invalid", "spec.containers[0].podInjectPolicy"),
        ("Invalid", "spec.containers[0].shareVolumePolicy"),
    ]


def test_errors_of_containers_are_those_of_pods() -> None:
    doc = sidecarset("s", container("A_b"), {"name": "c"}, initContainers=[container("c")])
    assert errors(doc) == [
        ("Invalid", "spec.containers[0].name"),
        ("Required", "spec.containers[1].image"),
        ("Duplicate", "spec.initContainers[0].name"),
    ]


@pytest.mark.parametrize("setting", ["shareVolumeDevicePolicy", "volumeMounts"])
def test_sidecars_that_were_stored_with_an_error_can_be_changed_elsewhere(setting: str) -> None:
    """OpenKruise accepts a policy of any type, and a mount without a volume was accepted earlier."""
    # given
    wrong: dict[str, Any] = {
        "shareVolumeDevicePolicy": {"type": "sometimes"},
        "volumeMounts": [{"name": "x", "mountPath": "/x"}],
    }
    old = sidecarset("s", container("a", **{setting: wrong[setting]}))
    new = sidecarset("s", container("a", **{setting: wrong[setting]}), updateStrategy={"paused": True})
    # then
    assert errors(new)
    assert errors(new, old=old) == []


def test_patterns_are_those_of_the_original() -> None:
    """OpenKruise's expressions have no look-around; a SidecarSet with one could not be moved back to OpenKruise."""
    assert errors(sidecarset("s", policy("(?=a)b", limits={"cpu": "cpu"})))


def test_an_unchanged_invalid_spec_does_not_block_other_changes() -> None:
    bad = sidecarset("s", container("a"), selector={})
    labelled = {**bad, "metadata": {"name": "s", "labels": {"new": "label"}}}
    assert errors(labelled, old=bad) == []
    labelled["metadata"]["labels"] = {"new": "no label"}
    assert errors(labelled, old=bad) == [("Invalid", "metadata.labels")]


@pytest.mark.parametrize(
    ("number", "strategy", "expected"),
    [
        ("3", {"revision": {"customVersion": "v1"}}, []),
        ("3", {"revision": {"customVersion": "v1", "policy": "Always"}}, []),
        (
            "3",
            {"revision": {"customVersion": "v1", "policy": "Partial"}},
            ["spec.injectionStrategy.revision"],
        ),
        ("3", None, ["spec.injectionStrategy.revision"]),
        ("30%", {"revision": {"customVersion": "v1"}}, ["metadata.annotations[pykruise.io/updated-pods]"]),
        ("-1", {"revision": {"customVersion": "v1"}}, ["metadata.annotations[pykruise.io/updated-pods]"]),
    ],
)
def test_a_number_of_updated_pods_needs_an_older_revision_for_new_pods(
    number: str, strategy: Any, expected: list[str]
) -> None:
    """sidecarset case 95"""
    known = [revision("s-1", **{"apps.kruise.io/sidecarset-custom-version": "v1"})]
    doc = sidecarset("s", container("a"), **({"injectionStrategy": strategy} if strategy else {}))
    old = sidecarset("s", container("a"), **({"injectionStrategy": strategy} if strategy else {}))
    doc["metadata"]["annotations"] = {"pykruise.io/updated-pods": number}
    assert [field for _, field in errors(doc, revisions=known)] == expected
    # also when only the annotation is added
    assert [field for _, field in errors(doc, old=old, revisions=known)] == expected
