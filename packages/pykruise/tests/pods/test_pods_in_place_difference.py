"""Differences between two revisions that can be applied in place."""

import copy
from typing import Any

import msgspec
import pytest

from pykruise.pods.in_place import InPlaceSettings, NotInPlace, RefMetadata, UpdateSpec, find_difference
from pykruise.pods.in_place.update_spec import WHOLE_POD
from pykruise.pods.view import keys
from support.updatable_pod import fed_from

SCALING = InPlaceSettings(vertical_scaling=True)
CLAIMS = InPlaceSettings(compare_claims=True)


class Revision(msgspec.Struct):
    template: dict[str, Any]
    annotations: dict[str, str] = {}


def template(
    *containers: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    template: dict[str, Any] = {
        "spec": {"containers": list(containers) or [{"name": "c1", "image": "a:1"}], **spec}
    }
    if metadata is not None:
        template["metadata"] = metadata
    return template


def diff(
    old: dict[str, Any], new: dict[str, Any], settings: InPlaceSettings | None = None, **options: Any
) -> UpdateSpec | NotInPlace:
    return find_difference(
        Revision(old), Revision(new), revision="web-new", settings=settings or InPlaceSettings(), **options
    )


def spec(
    old: dict[str, Any], new: dict[str, Any], settings: InPlaceSettings | None = None, **options: Any
) -> UpdateSpec:
    spec = diff(old, new, settings, **options)
    assert isinstance(spec, UpdateSpec), spec
    return spec


def refused(
    old: dict[str, Any], new: dict[str, Any], settings: InPlaceSettings | None = None, **options: Any
) -> str:
    result = diff(old, new, settings, **options)
    assert isinstance(result, NotInPlace), result
    return result.reason


def c(name: str = "c1", image: str = "a:1", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **fields}


def with_resources(**bounds: dict[str, str]) -> dict[str, Any]:
    return template(c(resources=bounds))


def test_an_image_change_is_applied_in_place_and_changes_nothing_else() -> None:
    """inplace-update case 1"""
    update_spec = spec(template(c(image="a:1")), template(c(image="a:2")))
    assert update_spec == UpdateSpec(revision="web-new", images={"c1": "a:2"})


def test_equal_revisions_leave_nothing_to_do() -> None:
    """inplace-update case 2"""
    assert spec(template(), template()).is_empty


def test_a_pod_of_an_unknown_revision_is_not_updated_in_place() -> None:
    """inplace-update case 3"""
    unknown = NotInPlace("the revision that the pod was created from is unknown")
    for settings in (InPlaceSettings(), CLAIMS):
        assert find_difference(None, Revision(template()), revision="web-new", settings=settings) == unknown
        assert find_difference(Revision(template()), None, revision="web-new", settings=settings) == unknown


def test_a_new_label_that_no_container_reads_is_patched_beside_the_image() -> None:
    """inplace-update case 4"""
    update_spec = spec(template(), template(c(image="a:2"), metadata={"labels": {"k1": "v1"}}))
    assert update_spec.images == {"c1": "a:2"}
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k1": "v1"}}}


FED = c(env=[fed_from("labels", "k")])


def test_a_label_that_feeds_an_environment_changes_with_its_container() -> None:
    """inplace-update case 5"""
    update_spec = spec(
        template(FED, metadata={"labels": {"k": "v1"}}),
        template(FED, metadata={"labels": {"k": "v2", "k1": "v1"}}),
    )
    assert update_spec.ref_metadata == {"c1": RefMetadata(labels={"k": "v2"})}
    assert update_spec.update_env_from_metadata
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k1": "v1"}}}


def test_labels_that_feed_an_environment_are_plain_labels_with_the_gate_off() -> None:
    """inplace-update case 6"""
    update_spec = spec(
        template(FED, metadata={"labels": {"k": "v1"}}),
        template(FED, metadata={"labels": {"k": "v2", "k1": "v1"}}),
        InPlaceSettings(env_from_metadata=False),
    )
    assert not update_spec.ref_metadata
    assert not update_spec.update_env_from_metadata
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k": "v2", "k1": "v1"}}}


def test_the_metadata_patch_is_empty_when_only_keys_that_feed_containers_change() -> None:
    update_spec = spec(
        template(FED, metadata={"labels": {"k": "v1"}}), template(FED, metadata={"labels": {"k": "v2"}})
    )
    assert update_spec.metadata_patch == {}


def test_removed_labels_and_finalizers_are_removed_from_the_pod() -> None:
    """inplace-update case 7"""
    update_spec = spec(
        template(metadata={"labels": {"k2": "v2"}, "finalizers": ["fz1", "fz2"]}),
        template(metadata={"labels": {"k1": "v1"}, "finalizers": ["fz2", "fz3"]}),
    )
    assert update_spec.metadata_patch == {
        "metadata": {
            "labels": {"k1": "v1", "k2": None},
            "finalizers": ["fz3"],
            "$deleteFromPrimitiveList/finalizers": ["fz1"],
        }
    }


def test_an_unchanged_key_of_the_template_is_not_patched() -> None:
    """inplace-update pitfall 15"""
    update_spec = spec(
        template(metadata={"labels": {"k": "1", "same": "1"}}),
        template(metadata={"labels": {"k": "2", "same": "1"}}),
    )
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k": "2"}}}


def test_a_removed_key_restarts_no_container() -> None:
    """inplace-update 6.1 step 7"""
    update_spec = spec(template(FED, metadata={"labels": {"k": "v1"}}), template(FED))
    assert not update_spec.ref_metadata
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k": None}}}


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (template(c()), template(c(), c("c2")), "spec.containers[1] was added"),
        (template(c(), c("c2")), template(c()), "spec.containers[1] was removed"),
        (template(c(), c("c2")), template(c("c2"), c()), "spec.containers[0].name was changed"),
        (
            template(initContainers=[c("i")]),
            template(initContainers=[c("i", "b:1")]),
            "spec.initContainers[0].image was changed",
        ),
        (
            template(c(env=[{"name": "E", "value": "1"}])),
            template(c(env=[{"name": "E", "value": "2"}])),
            "spec.containers[0].env[0].value was changed",
        ),
        (template(), template(hostNetwork=True), "spec.hostNetwork was added"),
        (
            template(volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}]),
            template(volumes=[{"name": "v", "configMap": {"name": "m"}}]),
            "spec.volumes[0].configMap was added",
        ),
        (
            template(c(resources={"claims": [{"name": "x"}]})),
            template(c(resources={"claims": [{"name": "y"}]})),
            "spec.containers[0].resources.claims[0].name was changed",
        ),
        *(
            (
                template(c(securityContext=before)),
                template(c(securityContext=after)),
                "spec.containers[0].securityContext was changed",
            )
            for before, after in (
                ({"a": 1}, "x"),
                ("x", {"a": 1}),
                ({"a": 1}, [1]),
                ([1], {"a": 1}),
                ([1], "x"),
                ("x", [1]),
            )
        ),
    ],
)
def test_anything_else_is_refused_and_the_reason_names_the_field(
    old: dict[str, Any], new: dict[str, Any], where: str
) -> None:
    """inplace-update cases 8, 9, 10, 11"""
    assert refused(old, new) == f"{where}; in place only images, labels and annotations can change"


def test_the_first_of_several_changes_is_named_deterministically() -> None:
    fields: dict[str, Any] = {f"field{number}": number for number in reversed(range(9))}
    assert refused(template(), template(**fields)).startswith("spec.field0 was added;")


def test_an_annotation_key_with_a_slash_is_matched_exactly() -> None:
    """inplace-update case 12"""
    fed = c(env=[fed_from("annotations", "shop.io/a.b~c")])
    update_spec = spec(
        template(fed, metadata={"annotations": {"shop.io/a.b~c": "1"}}),
        template(fed, metadata={"annotations": {"shop.io/a.b~c": "2"}}),
    )
    assert update_spec.ref_metadata == {"c1": RefMetadata(annotations={"shop.io/a.b~c": "2"})}


@pytest.mark.parametrize("variable", ["SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"])
def test_variables_of_sidecarsets_cause_no_restart(variable: str) -> None:
    """inplace-update case 13"""
    fed = c(env=[fed_from("annotations", "k", variable=variable)])
    update_spec = spec(
        template(fed, metadata={"annotations": {"k": "1"}}),
        template(fed, metadata={"annotations": {"k": "2"}}),
    )
    assert not update_spec.ref_metadata
    assert update_spec.metadata_patch == {"metadata": {"annotations": {"k": "2"}}}


CPU_1 = with_resources(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "500m", "memory": "1Gi"})
CPU_2 = with_resources(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "500m", "memory": "1Gi"})


def test_resources_need_their_gate() -> None:
    """inplace-update case 14"""
    assert refused(CPU_1, CPU_2).startswith("spec.containers[0].resources.limits.cpu was changed")


def test_a_cpu_limit_changes_in_place_behind_the_gate() -> None:
    """inplace-update case 15"""
    assert spec(CPU_1, CPU_2, SCALING).resources == {"c1": {"limits": {"cpu": "2"}}}


def test_the_quality_of_service_must_stay() -> None:
    """inplace-update case 16"""
    new = with_resources(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "1", "memory": "1Gi"})
    assert "from Burstable to Guaranteed" in refused(CPU_1, new, SCALING)


def test_only_cpu_and_memory_change_in_place() -> None:
    """inplace-update case 17"""
    old = with_resources(limits={"nvidia.com/gpu": "1"})
    new = with_resources(limits={"nvidia.com/gpu": "2"})
    assert "resources.limits.nvidia.com/gpu was changed" in refused(old, new, SCALING)


def test_amounts_of_another_kind_do_not_change_in_place() -> None:
    """inplace-update 6.1.1: limits and requests alone"""
    old, new = with_resources(future={"cpu": "1"}), with_resources(future={"cpu": "2"})
    assert refused(old, new, SCALING) == (
        "spec.containers[0].resources.future.cpu was changed; "
        "in place only images, labels, annotations, cpu and memory can change"
    )


def test_an_init_container_affects_the_quality_of_service_class() -> None:
    """inplace-update 6.1 step 5"""
    # given a container that becomes Guaranteed
    before = c(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
    after = c(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}})
    assert refused(template(before), template(after), SCALING)
    # then the pod stays Burstable if an init container has no resources
    setup = [c("setup")]
    update_spec = spec(template(before, initContainers=setup), template(after, initContainers=setup), SCALING)
    assert update_spec.resources == {"c1": {"requests": {"cpu": "1"}}}


def test_an_amount_that_cannot_be_read_hinders_no_change_of_the_image() -> None:
    old, new = (template(c(image=image, resources={"limits": {"cpu": "lots"}})) for image in ("a:1", "a:2"))
    assert spec(old, new, SCALING).images == {"c1": "a:2"}


def test_a_limit_cannot_be_added() -> None:
    """inplace-update case 18"""
    old = with_resources(limits={"cpu": "1"})
    new = with_resources(limits={"cpu": "1", "memory": "1Gi"})
    assert "resources.limits.memory was added" in refused(old, new, SCALING)


def test_a_limit_without_a_request_changes_the_request_that_it_implies() -> None:
    """The API server made the limit a request, too; a resize of only one of them would change the QoS class."""
    old = with_resources(limits={"cpu": "1", "memory": "1Gi"})
    new = with_resources(limits={"cpu": "2", "memory": "1Gi"})
    assert spec(old, new, SCALING).resources == {"c1": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}


def test_an_equal_quantity_in_another_notation_is_not_a_change() -> None:
    """inplace-update 6.1.1"""
    old = with_resources(limits={"cpu": "1", "memory": "1Gi"})
    new = with_resources(limits={"cpu": "1000m", "memory": "1024Mi"})
    assert spec(old, new).is_empty


@pytest.mark.parametrize(
    ("before", "after", "settings", "ignore", "in_place"),
    [
        ("a", "b", CLAIMS, False, False),
        ("a", "b", CLAIMS, True, True),
        ("a", "b", InPlaceSettings(), False, True),
        ("a", "a", CLAIMS, False, True),
        (None, "b", CLAIMS, False, True),
        ("a", None, CLAIMS, False, True),
        ("", "b", CLAIMS, False, False),
    ],
)
def test_changed_claim_templates_require_another_pod_when_both_revisions_have_hashes(
    before: str | None, after: str | None, settings: InPlaceSettings, ignore: bool, in_place: bool
) -> None:
    """inplace-update cases 19, 20; cloneset case 57"""
    old, new = Revision(template()), Revision(template(c(image="a:2")))
    for revision, value in ((old, before), (new, after)):
        revision.annotations = {} if value is None else {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: value}
    result = find_difference(old, new, revision="web-new", settings=settings, ignore_claims=ignore)
    assert isinstance(result, UpdateSpec) is in_place


def test_the_kind_names_the_revision() -> None:
    """inplace-update case 21"""
    result = find_difference(
        Revision(template()), Revision(template(c(image="a:2"))), revision="7c9d", settings=InPlaceSettings()
    )
    assert isinstance(result, UpdateSpec)
    assert result.revision == "7c9d"


def test_the_grace_period_is_part_of_the_update_spec_and_a_negative_one_is_zero() -> None:
    assert spec(template(), template(c(image="a:2")), grace_seconds=30).grace_seconds == 30
    assert spec(template(), template(c(image="a:2")), grace_seconds=-1).grace_seconds == 0


def test_defaults_in_only_one_template_are_not_a_difference() -> None:
    """One template was stored before defaulting, the other after it: both make the same pod."""
    old = template(c(image="a:1", ports=[{"containerPort": 80}], resources={}))
    new = template(
        c(
            image="a:2",
            ports=[{"containerPort": 80, "protocol": "TCP"}],
            terminationMessagePath="/dev/termination-log",
            imagePullPolicy="IfNotPresent",
        ),
        metadata={"creationTimestamp": None},
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
    )
    assert spec(old, new) == UpdateSpec(revision="web-new", images={"c1": "a:2"})
    assert spec(new, old).images == {"c1": "a:1"}


def test_a_pull_policy_that_is_not_the_default_is_a_change() -> None:
    reason = refused(template(c(image="a:1")), template(c(image="a:2", imagePullPolicy="Always")))
    assert reason.startswith("spec.containers[0].imagePullPolicy was changed")


def test_explicit_pull_policies_are_compared_exactly() -> None:
    always, never = template(c(imagePullPolicy="Always")), template(c(imagePullPolicy="Never"))
    assert refused(always, never).startswith("spec.containers[0].imagePullPolicy was changed")


def test_a_container_without_an_image_has_the_pull_policy_of_latest() -> None:
    assert spec(template({"name": "c1"}), template({"name": "c1", "imagePullPolicy": "Always"})).is_empty


def test_the_default_pull_policy_does_not_change_with_a_latest_tag() -> None:
    assert spec(template(c(image="a:1")), template(c(image="a"))).images == {"c1": "a"}


def test_the_first_annotation_of_a_template_can_feed_an_environment_too() -> None:
    """inplace-update 9.2: the keys of a new map are compared one by one"""
    fed = c(env=[fed_from("annotations", "k")])
    update_spec = spec(template(fed), template(fed, metadata={"annotations": {"k": "1", "other": "2"}}))
    assert update_spec.ref_metadata == {"c1": RefMetadata(annotations={"k": "1"})}
    assert update_spec.metadata_patch == {"metadata": {"annotations": {"other": "2"}}}


def test_an_annotation_read_by_two_containers_changes_with_both() -> None:
    first, second = (c(name, env=[fed_from("annotations", "k")]) for name in ("c1", "c2"))
    update_spec = spec(
        template(first, second, metadata={"annotations": {"k": "1"}}),
        template(first, second, metadata={"annotations": {"k": "2"}}),
    )
    assert set(update_spec.ref_metadata) == {"c1", "c2"}


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"spec": {}},
        {"spec": []},
        {"spec": {"containers": [{"name": "c1", "image": 5}]}},
        {"spec": {"containers": ["c1"]}},
        {"spec": {"containers": [{"name": 1, "image": "a:2"}]}},
        {"spec": {"containers": [{"name": "c1", "image": "a:1"}]}, "metadata": {"labels": {"k": 5}}},
        {"spec": {"containers": [{"name": "c1", "image": "a:1"}]}, "metadata": ["k"]},
    ],
)
def test_a_revision_that_is_not_a_pod_template_is_refused_without_an_error(damaged: dict[str, Any]) -> None:
    """inplace-update pitfall 8"""
    assert refused(template(), damaged)


def test_a_template_without_a_spec_is_refused_on_either_side() -> None:
    """inplace-update pitfall 8"""
    no_spec = NotInPlace("the template of a revision cannot be read: it has no spec")
    damaged: list[dict[str, Any]] = [{}, {"spec": {}}, {"spec": None}]
    for empty in damaged:
        assert diff(empty, template()) == no_spec
        assert diff(template(), empty) == no_spec
        assert diff(empty, empty) == no_spec


@pytest.mark.parametrize("containers", [{}, {"containers": None}, {"containers": []}])
def test_templates_without_containers_are_compared_too(containers: dict[str, Any]) -> None:
    """inplace-update pitfall 8"""
    old: dict[str, Any] = {"spec": {"hostNetwork": True, **containers}}
    update_spec = spec(old, {**old, "metadata": {"labels": {"k": "v"}}})
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k": "v"}}}


def test_a_template_without_metadata_has_no_labels() -> None:
    """inplace-update pitfall 8"""
    update_spec = spec(template(metadata={"labels": {"k": "v"}}), template())
    assert update_spec.metadata_patch == {"metadata": {"labels": {"k": None}}}


def test_an_invalid_quantity_is_refused() -> None:
    old = with_resources(limits={"cpu": "1"})
    new = with_resources(limits={"cpu": "lots"})
    assert refused(old, new, SCALING)


def test_comparing_changes_neither_template() -> None:
    old = template(FED, metadata={"labels": {"k": "v1"}})
    new = template(FED, metadata={"labels": {"k": "v2"}})
    before = copy.deepcopy((old, new))
    diff(old, new, SCALING)
    assert (old, new) == before


def with_init(image: str, *, restart_policy: str | None) -> dict[str, Any]:
    """A template with one init container."""
    init = {"name": "proxy", "image": image}
    if restart_policy:
        init["restartPolicy"] = restart_policy
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "main:1"}], "initContainers": [init]},
    }


@pytest.mark.parametrize(
    ("before", "after", "is_possible"),
    [("Always", "Always", True), (None, None, False), (None, "Always", False), ("Always", None, False)],
)
def test_the_image_of_a_native_sidecar_changes_in_place_that_of_a_plain_init_container_does_not(
    before: str | None, after: str | None, is_possible: bool
) -> None:
    """inplace-update case 10 and 9.2"""
    old = Revision(with_init("proxy:1", restart_policy=before))
    new = Revision(with_init("proxy:2", restart_policy=after))
    result = find_difference(old, new, revision="web-2", settings=InPlaceSettings())
    if is_possible:
        assert isinstance(result, UpdateSpec)
        assert dict(result.images) == {"proxy": "proxy:2"}
    else:
        assert isinstance(result, NotInPlace)
        assert "initContainers[0]" in result.reason


WHOLE_PODS = InPlaceSettings(vertical_scaling=True, resizes_pods=True)


def test_resources_of_a_whole_pod_change_in_place_where_the_api_server_can() -> None:
    # given a pod with limits of its own, from which its requests follow
    old, new = (template(resources={"limits": {"cpu": cpu, "memory": "2Gi"}}) for cpu in ("1", "2"))
    # then these requests change, too
    assert spec(old, new, WHOLE_PODS).resources == {
        WHOLE_POD: {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    }
    assert "spec.resources.limits.cpu was changed" in refused(old, new, SCALING)
    without_gate = InPlaceSettings(vertical_scaling=False, resizes_pods=True)
    assert "spec.resources.limits.cpu was changed" in refused(old, new, without_gate)


def test_pod_level_resources_cannot_be_added_or_removed_in_place() -> None:
    old, new = template(), template(resources={"limits": {"cpu": "1"}})
    assert "spec.resources was added" in refused(old, new, WHOLE_PODS)
    assert "spec.resources was removed" in refused(new, old, WHOLE_PODS)


def test_resources_of_a_whole_pod_decide_about_its_quality_of_service() -> None:
    # given a pod that becomes Guaranteed by its own resources, whatever its container says
    old = template(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
    new = template(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}})
    assert "from Burstable to Guaranteed" in refused(old, new, WHOLE_PODS)
    # and the QoS class of the pod does not change with that of its container
    own = {"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "3"}}
    before = template(
        c(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}), resources=own
    )
    after = template(
        c(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), resources=own
    )
    assert spec(before, after, WHOLE_PODS).resources == {"c1": {"requests": {"cpu": "500m"}}}
