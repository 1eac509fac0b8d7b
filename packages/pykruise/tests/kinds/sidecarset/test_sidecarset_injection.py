"""Sidecars that are injected into a new pod."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kube.documents import Document, annotations_of
from support.sidecarsets import (
    by_name,
    canary,
    container,
    hot,
    injected,
    names,
    pod,
    sidecarset,
    variables,
    view,
)

HASH = "kruise.io/sidecarset-hash"
IMAGELESS = "kruise.io/sidecarset-hash-without-image"
LIST = "kruise.io/sidecarset-injected-list"
WORKING = "kruise.io/sidecarset-working-hotupgrade-container"


def after(doc: Document, *sets: Document, **around: Any) -> Document:
    after = injected(doc, *sets, **around)
    assert after is not None
    return after


def annotated(doc: Document, key: str) -> Any:
    return orjson.loads(annotations_of(doc)[key])


# ── places ───────────────────────────────────────────────────────────────────


def test_sidecars_are_injected_before_or_after_the_pods_containers_and_marked() -> None:
    """sidecarset case 30"""
    result = after(
        pod(), sidecarset("s", container("a"), container("b", podInjectPolicy="AfterAppContainer"))
    )
    assert names(result) == ["a", "main", "b"]
    assert [variables(by_name(result, name)).get("IS_INJECTED") for name in names(result)] == [
        "true",
        None,
        "true",
    ]


def test_no_setting_of_the_sidecarset_gets_into_the_pod() -> None:
    result = after(pod(), sidecarset("s", container("a", shareVolumePolicy={"type": "enabled"})))
    assert by_name(result, "a").keys() <= {
        "name",
        "image",
        "env",
        "imagePullPolicy",
        "terminationMessagePath",
        "terminationMessagePolicy",
    }


def test_init_containers_are_injected_after_the_pods_own_sorted_by_name() -> None:
    """sidecarset case 31"""
    doc = pod(initContainers=[{"name": "x", "image": "x"}])
    result = after(doc, sidecarset("s", initContainers=[container("c"), container("a"), container("b")]))
    assert names(result, "initContainers") == ["x", "a", "b", "c"]


def test_an_injection_of_init_containers_writes_no_other_fields() -> None:
    result = after(pod(), sidecarset("s", container("a"), initContainers=[container("i")]))
    assert (names(result), names(result, "initContainers")) == (["a", "main"], ["i"])
    assert after(pod(), sidecarset("s", container("a")))["spec"].keys() == {"containers"}
    result = after(pod(), sidecarset("s", initContainers=[container("i")]))
    assert result["spec"].keys() == {"containers", "initContainers"}
    assert result["spec"]["containers"] == pod()["spec"]["containers"]


@pytest.mark.parametrize(
    "bare", [{"metadata": None, "spec": None}, {"metadata": {}, "spec": {"containers": None}}, {}]
)
def test_an_empty_pod_gets_its_sidecars(bare: Document) -> None:
    """The pod is reviewed before it is validated, so any field may be missing."""
    selector = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    result = after({"kind": "Pod", **bare}, sidecarset("s", sharing(), selector=selector))
    assert names(result) == ["a"]
    assert annotations_of(result)[LIST] == "s"
    with pytest.raises(InjectionError, match="no containers match"):
        injected({"kind": "Pod", **bare}, sidecarset("s", expressed(limits={"cpu": "1"}), selector=selector))


def test_containers_are_sorted_by_name_with_the_gate_on() -> None:
    """sidecarset case 32"""
    sets = sidecarset("one", container("z")), sidecarset("two", container("e"))
    assert names(after(pod(), *sets)) == ["z", "e", "main"]
    assert names(after(pod(), *sets, sort_by_name=True)) == ["e", "z", "main"]


def test_a_container_with_the_name_of_a_sidecar_is_replaced_at_its_position() -> None:
    """sidecarset case 33"""
    doc = pod(container("first", "own"), container("log", "own"), container("last", "own"))
    result = after(doc, sidecarset("s", container("log", "sidecar")))
    assert names(result) == ["first", "log", "last"]
    assert by_name(result, "log")["image"] == "sidecar"


def test_a_second_injection_changes_nothing() -> None:
    doc, sets = pod(), sidecarset("s", container("a"), hot("mesh"), initContainers=[container("i")])
    once = after(doc, sets)
    assert after(once, sets) == once


# ── which SidecarSets inject ─────────────────────────────────────────────────


def test_a_paused_injection_injects_nothing() -> None:
    """sidecarset case 34"""
    assert injected(pod(), sidecarset("s", container("a"), injectionStrategy={"paused": True})) is None


@pytest.mark.parametrize(
    "doc",
    [
        {**pod(), "status": {"phase": "Succeeded"}},
        {**pod(), "status": {"phase": "Failed"}},
        pod(metadata={"labels": {"app": "web"}, "deletionTimestamp": "2026-01-31T12:00:00Z"}),
    ],
)
def test_a_pod_that_ends_gets_nothing(doc: Document) -> None:
    """sidecarset case 35"""
    assert injected(doc, sidecarset("s", container("a"))) is None


def test_a_pod_without_the_labels_gets_nothing() -> None:
    assert injected(pod(metadata={"labels": {"app": "other"}}), sidecarset("s", container("a"))) is None
    assert injected(pod(metadata={"labels": None}), sidecarset("s", container("a"))) is None


def test_namespaces_are_selected_by_labels_and_unreadable_ones_never() -> None:
    """sidecarset case 36"""
    gold = sidecarset("s", container("a"), namespaceSelector={"matchLabels": {"tier": "gold"}})
    assert injected(pod(), gold, namespace_labels={"tier": "gold"}) is not None
    assert injected(pod(), gold, namespace_labels={"tier": "none"}) is None
    assert injected(pod(), gold, namespace_labels=None) is None


def test_sidecarsets_with_a_matching_namespace_name_precede_others_sorted_by_name() -> None:
    labels = {"kubernetes.io/metadata.name": "shop"}
    named = sidecarset("z", container("z"), namespaceSelector={"matchLabels": labels})
    sets = sidecarset("b", container("b")), named, sidecarset("a", container("a"))
    assert names(after(pod(), *sets, namespace_labels=labels)) == ["z", "a", "b", "main"]


def test_a_canary_replaces_its_base_unless_it_is_paused() -> None:
    """sidecarset case 37"""
    base = sidecarset("base", container("log", "log:1"))
    trial = canary("trial", container("log", "log:2"), base="base")
    result = after(pod(), base, trial)
    assert by_name(result, "log")["image"] == "log:2"
    assert annotations_of(result)[LIST] == "trial"
    trial["spec"]["injectionStrategy"] = {"paused": True}
    result = after(pod(), base, trial)
    assert by_name(result, "log")["image"] == "log:1"
    assert annotations_of(result)[LIST] == "base"


# ── what sidecars take from the pod ──────────────────────────────────────────


def sharing(**fields: Any) -> Document:
    return container("a", shareVolumePolicy={"type": "enabled"}, **fields)


def test_shared_mounts_do_not_displace_the_sidecars_own() -> None:
    """sidecarset case 38"""
    own = {"name": "own", "mountPath": "/data"}
    app = container(
        "main", volumeMounts=[{"name": "v", "mountPath": "/data"}, {"name": "v", "mountPath": "/b"}]
    )
    doc = pod(app, volumes=[{"name": "v", "emptyDir": {}}])
    result = after(
        doc, sidecarset("s", sharing(volumeMounts=[own]), volumes=[{"name": "own", "emptyDir": {}}])
    )
    assert by_name(result, "a")["volumeMounts"] == [own, {"name": "v", "mountPath": "/b"}]


def test_each_path_is_shared_once_and_only_with_sidecars_that_request_it() -> None:
    """section 6.3, step 2"""
    # given containers that mount one path, and one that mounts none
    mounts = [{"name": "v", "mountPath": "/data"}, {"name": "w", "mountPath": "/data"}]
    own = [container(name, volumeMounts=[mount]) for name, mount in zip("xy", mounts, strict=True)]
    # when
    sidecars = sharing(), container("b", shareVolumePolicy={"type": "disabled"})
    result = after(pod(*own, container("z")), sidecarset("s", *sidecars))
    # then
    assert by_name(result, "a")["volumeMounts"] == mounts[:1]
    assert "volumeMounts" not in by_name(result, "b")


@pytest.mark.parametrize(
    "variable", [{"name": "IS_INJECTED", "value": "false"}, {"name": "OTHER", "value": "true"}]
)
def test_a_container_counts_as_injected_only_by_its_mark(variable: Document) -> None:
    mount = {"name": "v", "mountPath": "/x"}
    result = after(pod(container("main", volumeMounts=[mount], env=[variable])), sidecarset("s", sharing()))
    assert by_name(result, "a")["volumeMounts"] == [mount]


def test_mounts_of_injected_containers_are_not_shared() -> None:
    other = container(
        "old", volumeMounts=[{"name": "v", "mountPath": "/x"}], env=[{"name": "IS_INJECTED", "value": "true"}]
    )
    mounts = after(pod(container("main"), other), sidecarset("s", sharing()))
    assert "volumeMounts" not in by_name(mounts, "a")


def test_variables_of_a_shared_sub_path_are_injected_if_they_exist() -> None:
    """sidecarset case 39"""
    mount = {"name": "v", "mountPath": "/d", "subPathExpr": "foo/$(POD_NAME)/$(MISSING)"}
    name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    result = after(pod(container("main", volumeMounts=[mount], env=[name])), sidecarset("s", sharing()))
    assert by_name(result, "a")["env"] == [{"name": "IS_INJECTED", "value": "true"}, name]
    assert by_name(result, "a")["volumeMounts"] == [mount]


def test_a_shared_sub_path_uses_the_first_variable_of_a_name() -> None:
    """section 6.3, step 2"""
    mount = {"name": "v", "mountPath": "/d", "subPathExpr": "$(A)"}
    env = [{"name": "A", "value": "first"}, {"name": "A", "value": "last"}]
    result = after(pod(container("main", volumeMounts=[mount], env=env)), sidecarset("s", sharing()))
    assert variables(by_name(result, "a"))["A"] == "first"


def transferring(*items: Document, **fields: Any) -> Document:
    return container("a", transferEnv=list(items), **fields)


def test_the_sidecars_own_variable_wins_over_a_transferred_one() -> None:
    """sidecarset case 40"""
    app = container("main", env=[{"name": "A", "value": "app"}, {"name": "B", "value": "app"}])
    item = {"sourceContainerName": "main", "envNames": ["A", "B"]}
    result = after(pod(app), sidecarset("s", transferring(item, env=[{"name": "A", "value": "own"}])))
    assert variables(by_name(result, "a")) == {"A": "own", "IS_INJECTED": "true", "B": "app"}


def test_a_label_names_the_container_and_a_missing_one_finds_nothing() -> None:
    """sidecarset case 41"""

    def item(path: str) -> Document:
        return {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": path}}, "envName": "A"}

    # the last variable of a name counts
    app = container("main", env=[{"name": "A", "value": "again"}, {"name": "A", "value": "app"}])
    marks = {"labels": {"app": "web", "cName": "main"}, "annotations": {"aName": "main"}}
    doc = pod(app, metadata=marks)
    for path in ("metadata.labels['cName']", "metadata.annotations['aName']"):
        result = after(doc, sidecarset("s", transferring(item(path))))
        assert variables(by_name(result, "a"))["A"] == "app"
    for path in ("metadata.labels['none']", "metadata.annotations['none']", "metadata.name"):
        result = after(doc, sidecarset("s", transferring(item(path))))
        assert variables(by_name(result, "a")) == {"IS_INJECTED": "true"}


def test_an_annotation_of_patch_pod_metadata_names_the_container() -> None:
    """section 6.3"""
    # given
    reference = {"fieldRef": {"fieldPath": "metadata.annotations['from']"}}
    sidecar = transferring({"sourceContainerNameFrom": reference, "envName": "A"})
    entry = {"annotations": {"from": "main"}, "patchPolicy": "Retain"}
    app = [container(name, env=[{"name": "A", "value": name}]) for name in ("main", "other")]
    patching = sidecarset("z", container("b"), patchPodMetadata=[entry])
    # when
    result = after(pod(*app), sidecarset("s", sidecar), patching)
    kept = after(pod(*app, metadata={"annotations": {"from": "other"}}), sidecarset("s", sidecar), patching)
    # then
    assert variables(by_name(result, "a"))["A"] == "main"
    assert variables(by_name(kept, "a"))["A"] == "other"


def test_names_are_transferred_once_each_in_their_order() -> None:
    """sidecarset case 42"""
    app = container("main", env=[{"name": name, "value": name} for name in "HGFEDCBA"])
    item = {"sourceContainerName": "main", "envName": "A", "envNames": [*"HGFCDEBA"]}
    result = after(pod(app), sidecarset("s", transferring(item)))
    assert list(variables(by_name(result, "a"))) == ["IS_INJECTED", *"ABCDEFGH"]


def test_a_mark_in_the_spec_is_replaced_and_not_doubled() -> None:
    """pitfall 25"""
    result = after(pod(), sidecarset("s", container("a", env=[{"name": "IS_INJECTED", "value": "no"}])))
    assert by_name(result, "a")["env"] == [{"name": "IS_INJECTED", "value": "true"}]


def test_volume_devices_are_shared_where_paths_are_free() -> None:
    app = container(
        "main", volumeDevices=[{"name": "d", "devicePath": "/dev/x"}, {"name": "d", "devicePath": "/m"}]
    )
    sidecar = container(
        "a", shareVolumeDevicePolicy={"type": "enabled"}, volumeMounts=[{"name": "m", "mountPath": "/m"}]
    )
    result = after(
        pod(container("none"), app),
        sidecarset("s", sidecar, container("b"), volumes=[{"name": "m", "emptyDir": {}}]),
    )
    assert by_name(result, "a")["volumeDevices"] == [{"name": "d", "devicePath": "/dev/x"}]
    assert "volumeDevices" not in by_name(result, "b")


def test_a_sidecars_own_devices_and_their_volumes_stay() -> None:
    """section 6.3, steps 5 and 8"""
    claim = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
    device = {"name": "d", "devicePath": "/dev/x"}
    result = after(pod(), sidecarset("s", container("a", volumeDevices=[device]), volumes=[claim]))
    assert by_name(result, "a")["volumeDevices"] == [device]
    assert result["spec"]["volumes"] == [claim]


# ── volumes and secrets ──────────────────────────────────────────────────────


def test_only_mounted_volumes_are_injected_and_the_pods_own_definition_is_kept() -> None:
    """sidecarset cases 43 and 44"""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("both", "new", "missing")]
    sidecars = [container(name, volumeMounts=mounts) for name in "ab"]
    volumes = [{"name": "both", "emptyDir": {"medium": "Memory"}}, {"name": "new"}, {"name": "idle"}]
    doc = pod(volumes=[{"name": "both", "hostPath": {"path": "/x"}}])
    result = after(doc, sidecarset("s", *sidecars, volumes=volumes))
    assert result["spec"]["volumes"] == [
        {"name": "both", "hostPath": {"path": "/x"}},
        {"name": "new", "emptyDir": {}},
    ]


def test_pull_secrets_are_merged_without_duplicates_after_those_of_the_pod() -> None:
    """sidecarset case 45"""
    doc = pod(imagePullSecrets=[{"name": "p"}, {"name": "x"}])
    secrets = [{"name": "x"}, {"name": "s"}, {"name": "s"}]
    result = after(doc, sidecarset("s", container("a"), imagePullSecrets=secrets))
    assert [secret["name"] for secret in result["spec"]["imagePullSecrets"]] == ["p", "x", "s"]


# ── annotations ──────────────────────────────────────────────────────────────


def test_the_records_are_exactly_those_of_the_original() -> None:
    sets = sidecarset(
        "log", container("b"), initContainers=[container("i"), container("a", restartPolicy="Always")]
    )
    sets["spec"]["updateStrategy"] = {"type": "NotUpdate"}
    result = after(pod(), sets)
    stored = view(sets)
    assert annotations_of(result)[HASH] == (
        '{"log":{"updateTimestamp":"2026-01-31T12:00:00Z","hash":"' + stored.hashes.full + '",'
        '"sidecarSetName":"log","sidecarList":["a","b"],"controllerRevision":"'
        + stored.contents.revision
        + '"}}'
        if stored.contents
        else ""
    )
    assert annotations_of(result)[IMAGELESS] == (
        '{"log":{"updateTimestamp":"2026-01-31T12:00:00Z","hash":"' + stored.hashes.without_image + '",'
        '"sidecarSetName":"log","sidecarList":["a","b"]}}'
    )
    assert annotations_of(result)[LIST] == "log"
    assert annotations_of(result).keys() == {HASH, IMAGELESS, LIST}


def test_an_older_record_becomes_an_object_and_an_unreadable_record_refuses_the_pod() -> None:
    """sidecarset case 46"""

    def doc(text: str) -> Document:
        return pod(metadata={"labels": {"app": "web"}, "annotations": {HASH: text}})

    result = after(doc('{"x":"h"}'), sidecarset("log", container("a")))
    assert (
        '"x":{"updateTimestamp":null,"hash":"h","sidecarSetName":"x","sidecarList":null}'
        in (annotations_of(result)[HASH])
    )
    assert annotated(result, HASH).keys() == {"log", "x"}
    for text in ("not json", "[]", '{"x":1}'):
        with pytest.raises(InjectionError, match=HASH):
            injected(doc(text), sidecarset("log", container("a")))


def patching(policy: str, value: str) -> Document:
    entry = {"patchPolicy": policy, "annotations": {"oom": value}}
    return sidecarset("log", container("a"), patchPodMetadata=[entry])


@pytest.mark.parametrize(
    ("policy", "old", "patch", "expected"),
    [
        ("MergePatchJson", '{"log-agent":1}', '{"envoy":2}', '{"envoy":2,"log-agent":1}'),
        ("MergePatchJson", '{"a":1,"b":2}', '{"a":null}', '{"b":2}'),
        ("MergePatchJson", "", "raw", "raw"),
        ("MergePatchJson", None, '{"envoy": 2}', '{"envoy": 2}'),
        ("Retain", "old", "new", "old"),
        ("Retain", None, "new", "new"),
        ("Overwrite", "old", "new", "new"),
    ],
)
def test_annotations_are_retained_overwritten_or_merged(
    policy: str, old: str | None, patch: str, expected: str
) -> None:
    """sidecarset case 47"""
    given = {} if old is None else {"oom": old}
    doc = pod(metadata={"labels": {"app": "web"}, "annotations": given})
    assert annotations_of(after(doc, patching(policy, patch)))["oom"] == expected


def test_an_unmergeable_annotation_refuses_the_pod() -> None:
    """sidecarset case 47"""
    doc = pod(metadata={"labels": {"app": "web"}, "annotations": {"oom": "abc"}})
    with pytest.raises(InjectionError, match=r"oom.*not JSON"):
        injected(doc, patching("MergePatchJson", '{"a":1}'))


def test_annotations_of_several_sidecarsets_add_up() -> None:
    """pitfall 6"""
    annotations, two = patching("MergePatchJson", '{"a":1}'), patching("MergePatchJson", '{"b":2}')
    two["metadata"]["name"] = "two"
    two["spec"]["containers"][0]["name"] = "b"
    assert annotated(after(pod(), annotations, two), "oom") == {"a": 1, "b": 2}


# ── hot sidecars ─────────────────────────────────────────────────────────────


def test_a_hot_sidecar_becomes_a_working_and_an_idle_container() -> None:
    """sidecarset case 52"""
    result = after(pod(), sidecarset("s", hot("mesh", "mesh:1", empty="empty:1")))
    assert names(result) == ["mesh-1", "mesh-2", "main"]
    assert [by_name(result, name)["image"] for name in ("mesh-1", "mesh-2")] == ["mesh:1", "empty:1"]
    annotations = annotations_of(result)
    versions = [
        annotations[f"{prefix}.sidecarset.kruise.io/mesh-{number}"]
        for number in (1, 2)
        for prefix in ("version", "versionalt")
    ]
    assert versions == ["1", "0", "0", "1"]
    assert annotated(result, WORKING) == {"mesh": "mesh-1"}
    assert annotated(result, HASH)["s"]["sidecarList"] == ["mesh"]
    assert variables(by_name(result, "mesh-2"))["SIDECARSET_VERSION"] == {
        "fieldRef": {
            "apiVersion": "v1",
            "fieldPath": "metadata.annotations['version.sidecarset.kruise.io/mesh-2']",
        }
    }


def test_an_init_container_is_hot_only_if_it_keeps_running() -> None:
    native = sidecarset("s", initContainers=[hot("i", restartPolicy="Always"), hot("j")])
    assert names(after(pod(), native), "initContainers") == ["i-1", "i-2", "j"]


# ── resources ────────────────────────────────────────────────────────────────


def expressed(mode: str = "sum", regex: str = ".*", **bounds: dict[str, str]) -> Document:
    policy = {"targetContainersMode": mode, "targetContainersNameRegex": regex, "resourcesExpr": bounds}
    return container("a", resourcesPolicy=policy)


def limited(name: str, limits: dict[str, str] | None = None, **requests: str) -> Document:
    resources: Document = {"limits": limits} if limits else {}
    return container(name, resources={**resources, **({"requests": requests} if requests else {})})


@pytest.mark.parametrize(("mode", "expected"), [("sum", "300m"), ("max", "200m")])
def test_limits_are_computed_from_the_sum_or_the_maximum(mode: str, expected: str) -> None:
    """sidecarset case 53"""
    doc = pod(limited("x", {"cpu": "200m"}), limited("y", {"cpu": "400m"}))
    result = after(doc, sidecarset("s", expressed(mode, limits={"cpu": "max(cpu*50%, 50m)"})))
    assert by_name(result, "a")["resources"] == {"limits": {"cpu": expected}}


def test_one_container_without_a_limit_removes_the_limit_and_missing_requests_are_zero() -> None:
    """sidecarset case 54"""
    doc = pod(limited("x", {"cpu": "200m"}, cpu="100m"), limited("y"))
    both = {"cpu": "cpu*50%", "memory": "memory*50%"}
    result = after(doc, sidecarset("s", expressed(limits={"cpu": "1"}, requests=both)))
    assert by_name(result, "a")["resources"] == {"requests": {"cpu": "50m", "memory": "0"}}


def test_a_pod_is_rejected_without_a_target_or_with_a_negative_result() -> None:
    """sidecarset case 55"""
    doc = pod(limited("x", {"cpu": "1"}), initContainers=[limited("init", {"cpu": "1"})])
    for sidecar, problem in (
        (expressed(regex="^missing$", limits={"cpu": "cpu"}), "no containers match the regex pattern"),
        (expressed(regex="^init$", limits={"cpu": "cpu"}), "no containers match"),
        (expressed(limits={"cpu": "cpu - 2"}), "must not be negative"),
    ):
        with pytest.raises(InjectionError, match=problem) as caught:
            injected(doc, sidecarset("s", sidecar))
        assert caught.value.sidecarset == "s"


def test_sidecars_are_not_resource_targets_but_native_sidecars_of_the_pod_are() -> None:
    """sidecarset case 55"""
    native = {**limited("own", {"cpu": "1"}), "restartPolicy": "Always"}
    doc = pod(limited("x", {"cpu": "1"}), limited("other", {"cpu": "5"}), initContainers=[native])
    sets = sidecarset("s", expressed(limits={"cpu": "cpu"})), sidecarset("t", container("other"))
    assert by_name(after(doc, *sets), "a")["resources"] == {"limits": {"cpu": "2"}}


def test_resource_claims_of_the_sidecar_are_kept() -> None:
    """pitfall 14"""
    sidecar = {**expressed(limits={"cpu": "cpu"}), "resources": {"claims": [{"name": "gpu"}]}}
    claims = after(pod(limited("x", {"cpu": "1"})), sidecarset("s", sidecar))
    assert by_name(claims, "a")["resources"] == {"limits": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
