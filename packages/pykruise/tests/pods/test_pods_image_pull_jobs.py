"""Image pulls before an update: new jobs, and stored jobs."""

from typing import Any

import orjson
import pytest

from pykruise.kube.ids import Key
from pykruise.kube.schemas.types import ObjectReference
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.pull_jobs import (
    PullJobView,
    PullSettings,
    find_changed_images,
    find_changed_volume_images,
    is_pull_job,
    project_pull_job,
    pull_jobs,
    read_annotated_settings,
    read_annotated_threshold,
)
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import ControllerView
from pykruise.pods.workload.revisions import project_revision
from support.cloneset_builder import revision

ALWAYS = {"completionPolicy": {"type": "Always"}}


def stored(spec: dict[str, Any] | None = None, *, status: Any = None, **metadata: Any) -> PullJobView:
    """A stored job; its spec is one that pulls nginx on all nodes, with the fields of `spec`."""
    given = {"image": "nginx:1", **ALWAYS, **(spec or {})}
    document = {"metadata": {"name": "job", **metadata}, "spec": given, "status": status}
    return project_pull_job(orjson.dumps(document))


# Settings


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), ("0", 0), ("-1", None), ("x", None), ("", None), ("9" * 10, None)],
)
def test_settings_in_annotations_are_whole_numbers_or_absent(text: str, number: int | None) -> None:
    annotations = {keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION: text, keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION: text}
    expected = PullSettings() if number is None else PullSettings(parallelism=number, timeout_s=number)
    assert read_annotated_settings(annotations) == expected
    assert (PullSettings().parallelism, PullSettings().timeout_s) == (1, 300)
    assert read_annotated_settings({}) == PullSettings()


@pytest.mark.parametrize(
    ("text", "number"),
    [("3", 3), ("20%", 2), ("25%", 3), ("0%", 0), ("-20%", 0), ("x%", 0), ("x", 0), ("-1", 0), (None, 0)],
)
def test_a_threshold_is_a_number_or_a_share_rounded_up(text: str | None, number: int) -> None:
    annotations = {} if text is None else {keys.PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION: text}
    assert read_annotated_threshold(annotations, of=10) == number


# Images


def with_images(**images: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": image} for name, image in images.items()]}}


@pytest.mark.parametrize(
    ("new", "olds", "expected"),
    [
        (with_images(c1="a:2", c2="b:1"), [with_images(c1="a:1", c2="b:1")], {"c1": "a:2"}),
        (with_images(c1="a:1"), [with_images(c1="a:1"), with_images(c1="a:0")], {"c1": "a:1"}),
        (with_images(c1="a:1", c2="b:1"), [with_images(c1="a:1")], {"c2": "b:1"}),
        (with_images(c1="a:1"), [{"spec": None}, {}], {"c1": "a:1"}),
        (with_images(c1="a:1"), [{"spec": {"containers": None}}], {"c1": "a:1"}),
        (with_images(c1="a:1"), [], {}),
        (with_images(c1="", c2=None, c3=5), [with_images(c1="a", c2="a", c3="a")], {}),
        ({"spec": {"containers": [{"image": "a:1"}, {"name": 5, "image": "a:1"}]}}, [with_images()], {}),
    ],
)
def test_an_image_is_pulled_that_some_older_revision_has_not(
    new: dict[str, Any], olds: list[dict[str, Any]], expected: dict[str, str]
) -> None:
    assert find_changed_images(new, olds) == expected


def with_volume(reference: Any, name: str = "model") -> dict[str, Any]:
    return {"spec": {"containers": [], "volumes": [{"name": name, "image": {"reference": reference}}]}}


@pytest.mark.parametrize(
    ("new", "olds", "expected"),
    [
        (with_volume("m:2"), [with_volume("m:1")], {"model.volume": "m:2"}),
        (with_volume("m:1", "other"), [with_volume("m:1")], {}),
        (with_volume("m:2"), [with_volume("m:2"), with_volume("m:1")], {"model.volume": "m:2"}),
        (with_volume("m:1"), [{"spec": None}], {"model.volume": "m:1"}),
        (with_volume(""), [with_volume("m:1")], {}),
        (with_volume(5), [with_volume("m:1")], {}),
        ({"spec": {"volumes": [5, {"name": "x", "image": 5}, {"name": "y", "emptyDir": {}}]}}, [{}], {}),
    ],
)
def test_the_image_of_a_volume_is_pulled_that_some_older_revision_mounts_nowhere(
    new: dict[str, Any], olds: list[dict[str, Any]], expected: dict[str, str]
) -> None:
    assert find_changed_volume_images(new, olds) == expected


# Making jobs


def made(template: dict[str, Any], *, selector: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    stored_revision = project_revision(
        orjson.dumps(revision({"metadata": {"labels": {}}, **template}, 1, name="web-7c9d"))
    )
    images = {"c1": "a:2", "c2": "b:2"}
    owner = {"name": "web"}
    given = PullSettings(**settings)
    return pull_jobs(stored_revision, images, selector=selector, owner=owner, settings=given)


def test_a_pull_job_per_image_targets_the_nodes_of_older_pods() -> None:
    """inplace-update case 68"""
    expressions = [{"key": "app", "operator": "Exists"}]
    not_new = {"key": keys.REVISION_LABEL, "operator": "NotIn", "values": ["web-7c9d", "7c9d"]}
    first, second = made(
        {
            "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
            "spec": {"imagePullSecrets": [{"name": "s1"}, {}, {"name": ""}, {"name": "s2"}]},
        },
        selector={"matchLabels": {"app": "web"}, "matchExpressions": expressions},
        parallelism=5,
        timeout_s=60,
    )
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("web-7c9d-c1", "web-7c9d-c2")
    assert (first["spec"]["image"], second["spec"]["image"]) == ("a:2", "b:2")
    labels = {"app": "web", keys.REVISION_HASH_LABEL: "7c9d"}
    assert first["metadata"] == {
        "name": "web-7c9d-c1",
        "namespace": "shop",
        "labels": labels,
        "ownerReferences": [{"name": "web"}],
    }
    assert first["spec"] == {
        "image": "a:2",
        "podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [*expressions, not_new]},
        "parallelism": 5,
        "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": 60},
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
        "sandboxConfig": {"labels": labels, "annotations": {"note": "x"}},
        "pullSecrets": ["s1", "s2"],
    }


@pytest.mark.parametrize(
    "template",
    [{}, {"metadata": {"labels": None}, "spec": None}, {"metadata": {"labels": {}, "annotations": {}}}],
)
def test_missing_template_fields_are_left_out_of_the_pull_job(template: dict[str, Any]) -> None:
    document = revision({"metadata": {"labels": {}}}, 1, name="web-7c9d")
    document["data"] = {"spec": {"template": template}}
    owned = project_revision(orjson.dumps(document))
    (job,) = pull_jobs(owned, {"c1": "a:2"}, selector={}, owner={}, settings=PullSettings())
    assert job["spec"]["sandboxConfig"] == {"labels": {keys.REVISION_HASH_LABEL: "7c9d"}}
    assert job["spec"]["podSelector"].keys() == {"matchExpressions"}
    assert "pullSecrets" not in job["spec"]


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("apps.kruise.io/v1beta1", "ImagePullJob", True),
        ("apps.kruise.io/v1alpha1", "ImagePullJob", True),
        ("apps/v1", "ImagePullJob", False),
        ("apps.kruise.io/v1beta1", "CloneSet", False),
    ],
)
def test_a_reference_to_a_pull_job_is_known_in_any_version(
    api_version: str, kind: str, expected: bool
) -> None:
    reference = ObjectReference(api_version=api_version, kind=kind, name="job", uid="u")
    assert is_pull_job(reference) is expected


# Stored jobs


def test_a_stored_job_is_read() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"},
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "name": "web",
            "uid": "u",
            "controller": True,
        },
    ]
    pull_job = stored(
        {"pullSecrets": ["b", "a", "b"]},
        status={"active": 2},
        namespace="shop",
        uid="job-uid",
        resourceVersion="7",
        generation=2,
        labels={"a": "b"},
        finalizers=["f"],
        ownerReferences=owners,
        deletionTimestamp="2026-01-31T12:00:00Z",
    )
    assert (pull_job.key, pull_job.uid, pull_job.resource_version) == (Key("shop", "job"), "job-uid", 7)
    assert (pull_job.generation, pull_job.labels, pull_job.finalizers) == (2, {"a": "b"}, ("f",))
    assert pull_job.controller == ControllerView("apps.kruise.io", "CloneSet", "web", "u")
    assert (pull_job.controller_uid, pull_job.is_deleting, pull_job.is_active) == ("u", True, False)
    assert (pull_job.image, pull_job.problem) == (ImageName("nginx", "1"), "")
    assert (pull_job.status.active, pull_job.stored_status) == (2, {"active": 2})
    assert pull_job.secrets == ("b", "a")


def test_an_empty_pull_job_is_a_view_with_a_problem() -> None:
    pull_job = project_pull_job(
        b'{"metadata":{"name":"job","labels":null,"ownerReferences":null},"spec":null}'
    )
    assert (pull_job.spec, pull_job.image, bool(pull_job.problem)) == (None, None, True)
    assert (pull_job.namespace, pull_job.resource_version, pull_job.labels, pull_job.finalizers) == (
        "",
        0,
        {},
        (),
    )
    assert (pull_job.controller, pull_job.controller_uid, pull_job.is_deleting) == (None, "", False)
    assert (pull_job.ends, pull_job.is_finished, pull_job.is_active, pull_job.secrets) == (
        True,
        False,
        True,
        (),
    )
    assert pull_job.stored_status == {}
    assert pull_job.selects("n1", {})


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"image": "UPPER"}, "spec.image"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "spec.selector"),
        ({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "spec.podSelector"),
    ],
)
def test_an_unreadable_field_of_a_pull_job_is_its_problem(spec: dict[str, Any], where: str) -> None:
    pull_job = stored(spec)
    assert pull_job.spec is None
    assert pull_job.problem.startswith(f"{where}: ")


def test_a_status_that_cannot_be_read_counts_as_empty() -> None:
    pull_job = stored(status={"active": "many"})
    assert (pull_job.status.active, pull_job.problem, pull_job.stored_status) == (0, "", {"active": "many"})


@pytest.mark.parametrize(("policy", "ends"), [("Always", True), ("", True), ("Never", False)])
def test_a_job_ends_unless_it_is_never_to(policy: str, ends: bool) -> None:
    assert stored({"completionPolicy": {"type": policy}}).ends is ends


def test_a_job_is_active_until_it_has_ended_or_is_deleted() -> None:
    ended = stored(status={"completionTime": "2026-01-31T12:00:00Z"})
    assert (ended.is_finished, ended.is_active) == (True, False)
    assert (stored().is_finished, stored().is_active) == (False, True)


@pytest.mark.parametrize(
    ("selector", "nodes"),
    [
        (None, "n1 n2"),
        ({}, "n1 n2"),
        ({"names": ["n2", "n3"]}, "n2"),
        ({"names": []}, ""),
        ({"names": ["n2"], "matchLabels": {"disk": "ssd"}}, "n2"),
        ({"matchLabels": {"disk": "ssd"}}, "n1"),
        ({"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}, "n2"),
    ],
)
def test_a_job_is_for_nodes_by_name_or_by_label(selector: dict[str, Any] | None, nodes: str) -> None:
    pull_job = stored({"selector": selector})
    labels = {"n1": {"disk": "ssd"}, "n2": {}}
    assert [name for name in labels if pull_job.selects(name, labels[name])] == nodes.split()


def test_a_job_may_be_for_the_nodes_of_pods() -> None:
    pull_job = stored({"podSelector": {"matchLabels": {"app": "web"}}})
    assert pull_job.pod_selector is not None
    assert pull_job.pod_selector.matches({"app": "web"})
    assert not pull_job.pod_selector.matches({"app": "api"})
    assert stored().pod_selector is None
    expressions = stored({"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}})
    assert expressions.pod_selector is not None
    assert not expressions.pod_selector.matches({})
