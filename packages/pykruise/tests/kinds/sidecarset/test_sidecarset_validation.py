"""What admission refuses of a SidecarSet, and under which field."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from pykruise.kinds.sidecarset.admission import mutate_sidecarset, validating
from pykruise.kinds.sidecarset.conversion import CONVERSION
from pykruise.kinds.sidecarset.defaults import with_defaults
from pykruise.kinds.sidecarset.facts import Facts
from pykruise.kinds.sidecarset.revisions import SET_LABEL, candidate_of
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.validation import errors_of
from pykruise.kinds.sidecarset.view import read_spec
from pykruise.kube.conversion import convert
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.pods.revisions import RevisionView
from support.reviews import at_once, request
from support.sidecarsets import canary, container, hot, sidecarset, view


def errors(
    doc: Document, *others: Document, old: Document | None = None, **facts: Any
) -> list[tuple[str, str]]:
    """Reason and field of every error, of a document with its defaults."""
    stored = with_defaults(doc)
    spec, problem = read_spec(stored["spec"])
    assert spec is not None, problem
    found = errors_of(
        stored,
        spec,
        facts=Facts(others=[view(one) for one in others], **facts),
        old=with_defaults(old) if old is not None else None,
    )
    return [(one.reason.removeprefix("FieldValue"), one.field) for one in found]


def test_a_plain_sidecarset_is_accepted() -> None:
    assert errors(sidecarset("log", container("log"), namespaceSelector={"matchLabels": {"a": "b"}})) == []


# ── metadata and canaries ────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["a.b", "a" * 64])
def test_names_are_short_and_without_dots(name: str) -> None:
    """case 11"""
    assert ("Invalid", "metadata.name") in errors(sidecarset(name, container("log")))


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
    found = errors(sidecarset("s", updateStrategy={"type": "NotUpdate"}, **{field: [log]}))
    place = f"spec.{field}[0].startupProbe"
    assert [f"{reason} {path[len(place) + 1 :]}" for reason, path in found] == wrong
    assert all(path.startswith(place) for _, path in found)


def test_a_canary_needs_a_base_that_is_none_and_does_not_update() -> None:
    """case 24"""
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


def test_a_canarys_base_cannot_be_changed() -> None:
    """case 25"""
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
    """case 5"""
    native = [container("a", restartPolicy="Always"), container("b", restartPolicy="Always")]
    assert errors(sidecarset("s", initContainers=native)) == [("Required", "spec.updateStrategy")] * 2
    assert errors(sidecarset("s", initContainers=native, updateStrategy={"type": "NotUpdate"})) == []


def test_a_selector_is_required_and_selects_something() -> None:
    """case 6"""
    assert errors(sidecarset("s", container("a"), selector={})) == [("Invalid", "spec.selector")]
    assert errors(sidecarset("s", container("a"), selector=None)) == [("Required", "spec.selector")]
    bad = {"matchExpressions": [{"key": "a", "operator": "Nope"}]}
    assert errors(sidecarset("s", container("a"), selector=bad)) == [("Invalid", "spec.selector")]
    assert errors(sidecarset("s", container("a"), namespaceSelector={})) == [
        ("Invalid", "spec.namespaceSelector")
    ]


def test_there_is_at_least_one_container() -> None:
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
    """case 16, pitfall 16"""

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


# ── update strategy ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(("partition", "expected"), [(10, 1), ("0%", 1), ("10%", 1), (0, 0), (None, 0)])
def test_a_selector_excludes_a_partition(partition: Any, expected: int) -> None:
    """case 7"""
    strategy = {"selector": {"matchLabels": {"a": "b"}}, "partition": partition}
    assert (
        errors(sidecarset("s", container("a"), updateStrategy=strategy))
        == [("Invalid", "spec.updateStrategy")] * expected
    )


@pytest.mark.parametrize("field", ["partition", "maxUnavailable"])
@pytest.mark.parametrize(
    ("value", "is_wrong"),
    [(-1, True), ("5", True), ("-5%", True), ("5.5%", True), (0, False), ("50%", False)],
)
def test_amounts_are_numbers_or_percentages(field: str, value: Any, *, is_wrong: bool) -> None:
    """case 8"""
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
    """case 14"""
    found = errors(sidecarset("s", container("a"), updateStrategy={"priorityStrategy": priority}))
    assert found == [("Required", "spec.updateStrategy.priorityStrategy")]


def test_scatter_terms_have_keys_and_are_there_once() -> None:
    """case 14"""
    for terms in ([{"key": "a", "value": "b"}] * 2, [{"key": "", "value": "b"}]):
        found = errors(sidecarset("s", container("a"), updateStrategy={"scatterStrategy": terms}))
        assert found == [("Required", "spec.updateStrategy.scatterStrategy")]


def test_without_updates_the_strategy_is_not_looked_at() -> None:
    strategy = {"type": "NotUpdate", "maxUnavailable": -1}
    assert errors(sidecarset("s", container("a"), updateStrategy=strategy)) == []


# ── sidecars ─────────────────────────────────────────────────────────────────


def test_mounts_refer_to_volumes_of_the_sidecarset() -> None:
    """case 9"""
    mount = [{"name": "v", "mountPath": "/v"}]
    assert errors(sidecarset("s", container("a", volumeMounts=mount))) == [
        ("NotFound", "spec.containers[0].volumeMounts[0].name")
    ]
    assert errors(sidecarset("s", container("a", volumeMounts=mount), volumes=[{"name": "v"}])) == []


def test_a_device_and_a_mount_do_not_share_a_path() -> None:
    """case 10"""
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
        ("Invalid", "spec.containers[0].volumeDevices[0].devicePath"),
    ]


def test_no_container_is_added_or_renamed_and_one_may_go() -> None:
    """case 12"""
    old = sidecarset("s", container("a"), container("b"))
    assert errors(sidecarset("s", container("a"), container("new")), old=old) == [
        ("Invalid", "spec.containers.name")
    ]
    assert errors(sidecarset("s", container("b")), old=old) == []
    assert errors(sidecarset("s", container("a"), initContainers=[container("i")]), old=old) == []


def test_the_upgrade_type_stays() -> None:
    """case 13"""
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
def test_transferred_variables_come_from_a_label_or_annotation(path: str, expected: list[str]) -> None:
    """case 15"""
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
def test_a_policy_that_could_not_be_carried_out_is_refused(sidecar: Document, field: str) -> None:
    """case 26"""
    assert errors(sidecarset("s", sidecar)) == [("Invalid", f"spec.containers[0].resourcesPolicy{field}")]


def test_an_empty_expression_of_targets_selects_all() -> None:
    """section 5.4"""
    assert errors(sidecarset("s", policy("", limits={"cpu": "cpu"}))) == []


def test_only_init_containers_that_keep_running_have_a_policy() -> None:
    """case 27"""
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


# ── annotations of pods ──────────────────────────────────────────────────────


def annotating(*entries: Document, **spec: Any) -> Document:
    return sidecarset("s", container("a"), patchPodMetadata=list(entries), **spec)


OOM = {"annotations": {"oom-score": "1"}}
FIELD = "spec.patchPodMetadata"


def test_without_a_whitelist_the_gate_decides() -> None:
    """case 17"""
    assert errors(annotating(OOM)) == [("Required", FIELD)]
    assert errors(annotating(OOM), allows_any_annotation=True) == []
    assert errors(annotating(OOM), whitelist='{"rules":[]}') == [("Required", FIELD)]


def test_a_rule_is_for_sidecarsets_with_its_labels_even_with_the_gate() -> None:
    """case 18"""
    rules = [{"selector": {"matchLabels": {"sidecar": "log"}}, "allowedAnnotationKeyExprs": ["^oom-score$"]}]
    rules.append({"selector": {}, "allowedAnnotationKeyExprs": ["^other$"]})
    whitelist = orjson.dumps({"rules": rules}).decode()
    labelled = annotating(OOM, metadata={"labels": {"sidecar": "log"}})
    assert errors(annotating(OOM), whitelist=whitelist, allows_any_annotation=True) == [("Required", FIELD)]
    assert errors(labelled, whitelist=whitelist) == []


@pytest.mark.parametrize(
    "text", ["", "no json", '{"rules":1}', '{"rules":[{"allowedAnnotationKeyExprs":["["]}]}']
)
def test_a_whitelist_that_cannot_be_read_allows_nothing(text: str) -> None:
    assert errors(annotating(OOM), whitelist=text, allows_any_annotation=True) == [("Required", FIELD)]


def test_each_annotation_is_patched_once_and_has_a_key() -> None:
    """case 19"""
    allowed: dict[str, Any] = {"allows_any_annotation": True}
    assert errors(annotating(OOM, OOM), **allowed) == [("Required", f"{FIELD}[1].annotations")]
    assert errors(annotating({"annotations": {}}), **allowed) == [("Required", f"{FIELD}[0].annotations")]
    assert errors(annotating({"annotations": {"not a key": "x"}}), **allowed) == [
        ("Invalid", f"{FIELD}[0].annotations")
    ]
    assert errors(annotating({**OOM, "patchPolicy": "Guess"}), **allowed) == [
        ("NotSupported", f"{FIELD}[0].patchPolicy")
    ]


# ── conflicts ────────────────────────────────────────────────────────────────


def selecting(name: str, labels: dict[str, str], *containers: Document, **spec: Any) -> Document:
    return sidecarset(name, *containers, selector={"matchLabels": labels}, **spec)


def test_sidecarsets_that_meet_do_not_share_a_container_name() -> None:
    """cases 20 and 21"""
    one = selecting("one", {"app": "x"}, container("a"))
    assert errors(selecting("two", {"app": "x"}, container("a")), one) == [("Invalid", "spec.containers")]
    assert errors(selecting("two", {"app": "y"}, container("a")), one) == []
    assert errors(selecting("two", {"c": "d"}, container("a")), one) == [("Invalid", "spec.containers")]
    assert errors(selecting("two", {"app": "x"}, container("b")), one) == []


def test_disjoint_namespaces_keep_them_apart() -> None:
    """case 20"""

    def named(name: str, *namespaces: str) -> Document:
        key = "kubernetes.io/metadata.name"
        where = {"matchExpressions": [{"key": key, "operator": "In", "values": list(namespaces)}]}
        return sidecarset(name, container("a"), namespaceSelector=where)

    assert errors(named("two", "n2"), named("one", "n1")) == []
    assert errors(named("two", "n2", "n1"), named("one", "n1")) != []
    assert errors(sidecarset("two", container("a")), named("one", "n1")) != []


@pytest.mark.parametrize(
    ("requirement", "meets"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "In", "values": ["x", "y"]}, True),
        ({"operator": "In", "values": ["y"]}, False),
        ({"operator": "NotIn", "values": ["x"]}, False),
        ({"operator": "NotIn", "values": ["y"]}, True),
    ],
)
def test_selectors_meet_when_there_could_be_a_pod_of_both(requirement: Document, *, meets: bool) -> None:
    """pitfall 11"""
    one = selecting("one", {"app": "x"}, container("a"))
    selector = {"matchExpressions": [{"key": "app", **requirement}]}
    assert bool(errors(sidecarset("two", container("a"), selector=selector), one)) is meets
    elsewhere = {"matchExpressions": [{"key": "other", "operator": "Exists"}]}
    assert errors(sidecarset("two", container("a"), selector=elsewhere), one) != []
    none = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "app", "operator": "In", "values": ["y"]}],
    }
    assert errors(sidecarset("two", container("a"), selector=none), one) == []


def test_volumes_of_one_name_are_the_same() -> None:
    """case 22"""
    one = sidecarset("one", container("a"), volumes=[{"name": "v", "emptyDir": {}}])
    assert errors(sidecarset("two", container("b"), volumes=[{"name": "v", "emptyDir": {}}]), one) == []
    other = [{"name": "v", "hostPath": {"path": "/x"}}]
    assert errors(sidecarset("two", container("b"), volumes=other), one) == [("Invalid", "spec.volumes")]


@pytest.mark.parametrize(
    ("mine", "theirs", "collides"),
    [
        ("Overwrite", "MergePatchJson", True),
        ("Overwrite", "Overwrite", True),
        ("MergePatchJson", "MergePatchJson", False),
        ("Retain", "Overwrite", False),
        ("MergePatchJson", "Retain", False),
    ],
)
def test_one_annotation_is_overwritten_by_one_alone(mine: str, theirs: str, *, collides: bool) -> None:
    """case 23"""
    one = sidecarset("one", container("b"), patchPodMetadata=[{**OOM, "patchPolicy": theirs}])
    other = sidecarset("z", container("c"), patchPodMetadata=[{**OOM, "patchPolicy": "Retain"}])
    doc = annotating({**OOM, "patchPolicy": mine})
    expected = [("Invalid", FIELD)] if collides else []
    assert errors(doc, one, other, allows_any_annotation=True) == expected


# ── the reviews ──────────────────────────────────────────────────────────────


class Reader:
    """A reader over given SidecarSets, or one that fails."""

    def __init__(self, *sets: Document, fails: bool = False) -> None:
        self.sets = [view(one) for one in sets]
        self.fails = fails

    async def sidecar_sets(self) -> Sequence[Any]:
        if self.fails:
            raise KubeError("the API server is away")
        return self.sets

    async def namespace_labels(self, name: str) -> None:
        return None

    async def revisions(self, name: str) -> Sequence[RevisionView]:
        return ()

    async def whitelist(self) -> str | None:
        raise KubeError("forbidden")


def test_all_errors_come_back_at_once_with_422() -> None:
    bad = sidecarset("a.b", container("A"), selector={})
    answer = at_once(validating(Reader(), allows_any_annotation=False), request(SIDECAR_SETS, bad))
    assert answer.refusal is not None
    assert answer.refusal.code == 422
    assert answer.refusal.details is not None
    assert len(answer.refusal.details.causes) >= 3


def test_what_cannot_be_read_is_answered_with_400() -> None:
    for doc in (
        {**sidecarset("s"), "spec": "text"},
        sidecarset("s", container("a", env="text")),
        sidecarset("s", "text"),  # type: ignore[arg-type]
        sidecarset("s", container("a"), updateStrategy={"paused": "yes"}),
    ):
        answer = at_once(mutate_sidecarset, request(SIDECAR_SETS, doc))
        assert answer.refusal is not None
        assert answer.refusal.code == 400


def test_what_it_has_to_be_compared_with_must_be_readable() -> None:
    doc = with_defaults(sidecarset("s", container("a")))
    answer = at_once(validating(Reader(fails=True), allows_any_annotation=False), request(SIDECAR_SETS, doc))
    assert answer.refusal is not None
    assert answer.refusal.code == 500
    answer = at_once(
        validating(Reader(), allows_any_annotation=True),
        request(SIDECAR_SETS, with_defaults(annotating(OOM))),
    )
    assert answer.refusal is not None
    assert "forbidden" in answer.refusal.message


def test_a_spec_that_stays_bad_does_not_hold_up_other_changes() -> None:
    bad = sidecarset("s", container("a"), selector={})
    labelled = {**bad, "metadata": {"name": "s", "labels": {"new": "label"}}}
    assert errors(labelled, old=bad) == []


# ── versions ─────────────────────────────────────────────────────────────────

TABLE = {(CONVERSION.resource.group, CONVERSION.resource.kind): CONVERSION}


def test_a_named_namespace_becomes_a_selector_for_good() -> None:
    """case 28"""
    old = sidecarset("s", container("a"), namespace="ns", namespaceSelector={"matchLabels": {"a": "b"}})
    old["apiVersion"] = "apps.kruise.io/v1alpha1"
    new = convert(old, "apps.kruise.io/v1beta1", TABLE)
    assert new["spec"]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}
    assert "namespace" not in convert(new, "apps.kruise.io/v1alpha1", TABLE)["spec"]


def test_the_custom_version_is_a_label_in_the_older_version() -> None:
    """case 29"""
    label = "apps.kruise.io/sidecarset-custom-version"
    old = sidecarset("s", container("a"), metadata={"labels": {label: "v1"}})
    old["apiVersion"] = "apps.kruise.io/v1alpha1"
    new = convert(old, "apps.kruise.io/v1beta1", TABLE)
    assert new["spec"]["customVersion"] == "v1"
    assert label not in (new["metadata"].get("labels") or {})
    assert convert(new, "apps.kruise.io/v1alpha1", TABLE)["metadata"]["labels"][label] == "v1"


@pytest.mark.parametrize("setting", ["shareVolumeDevicePolicy", "volumeMounts"])
def test_sidecars_that_were_stored_with_an_error_can_be_changed_elsewhere(setting: str) -> None:
    """The original accepts a policy of any type; and a mount without a volume was accepted once."""
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
    """It has no look-around; a SidecarSet with one could not be taken back to it."""
    assert errors(sidecarset("s", policy("(?=a)b", limits={"cpu": "cpu"})))
