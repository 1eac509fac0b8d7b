"""A SidecarSet in a cache, also if it was stored without admission."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.hashes import hashes_of
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kube.documents import Document, encode
from support.sidecarsets import canary, container, sidecarset, view

NAME = "kubernetes.io/metadata.name"
FULL, IMAGELESS = "kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"


def stored(*, status: Any = None, generation: int = 3, metadata: Any = None, **spec: Any) -> SidecarSetView:
    """A SidecarSet that was stored without admission."""
    doc = sidecarset("log", container("log"), **spec)
    meta = {"name": "log", "uid": "u", "resourceVersion": "1", "generation": generation, **(metadata or {})}
    return project_sidecarset(encode({**doc, "metadata": meta, "status": status}))


# ── selected pods and namespaces ─────────────────────────────────────────────


@pytest.mark.parametrize("spec", [None, {}, {"selector": {}}, {"selector": None}])
def test_a_sidecarset_without_a_selector_selects_no_pod(spec: Document | None) -> None:
    """section 6.1"""
    doc = {"metadata": {"name": "log", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    sidecar_set = project_sidecarset(encode(doc))
    assert not sidecar_set.selects({"app": "web"})
    assert sidecar_set.meant.selector.selects_nothing
    assert not sidecar_set.problem


def test_a_sidecarset_selects_the_pods_that_its_selector_matches() -> None:
    sidecar_set = stored()
    assert sidecar_set.selects({"app": "web"})
    assert not sidecar_set.selects({"app": "other"})
    assert sidecar_set.meant.selector.matches({"app": "web"})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Nope"}]}}, "spec.selector: "),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Nope"}]}},
            "spec.namespaceSelector: ",
        ),
        (
            {"updateStrategy": {"selector": {"matchExpressions": [{"key": "a", "operator": "Nope"}]}}},
            "spec.updateStrategy.selector: ",
        ),
        ({"updateStrategy": {"paused": "yes"}}, "updateStrategy.paused"),
        ({"initContainers": ["text"]}, "spec.initContainers"),
        ({"containers": [container("a", podInjectPolicy=7)]}, "spec.containers[0].podInjectPolicy"),
        (
            {"initContainers": [container("i", env="text")]},
            "spec.initContainers[0]: json: cannot unmarshal string",
        ),
    ],
)
def test_an_unreadable_sidecarset_reports_its_problem_and_selects_nothing(
    spec: Document, problem: str
) -> None:
    sidecar_set = stored(**spec)
    assert sidecar_set.spec is None
    assert problem in sidecar_set.problem
    assert not sidecar_set.is_only_injected


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        ({"matchLabels": {NAME: "shop"}}, ("shop",)),
        ({"matchLabels": {NAME: "shop", "tier": "gold"}}, ("shop",)),
        ({"matchExpressions": [{"key": NAME, "operator": "In", "values": ["shop", "bar"]}]}, ("shop", "bar")),
        (
            {
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["gold"]},
                    {"key": NAME, "operator": "NotIn", "values": ["bar"]},
                    {"key": NAME, "operator": "Exists"},
                    {"key": NAME, "operator": "In", "values": ["shop"]},
                ]
            },
            ("shop",),
        ),
        # a label precedes expressions
        (
            {
                "matchLabels": {NAME: "shop"},
                "matchExpressions": [{"key": NAME, "operator": "In", "values": ["shop", "bar"]}],
            },
            ("shop",),
        ),
        ({"matchLabels": {"tier": "gold"}}, ()),
        ({"matchLabels": None, "matchExpressions": None}, ()),
        ({"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["shop"]}]}, ()),
        ({"matchExpressions": [{"key": NAME, "operator": "In", "values": None}]}, ()),
        (None, ()),
    ],
)
def test_the_namespaces_that_its_selector_names(selector: Any, named: tuple[str, ...]) -> None:
    """section 6.1, step 2"""
    assert stored(namespaceSelector=selector).named_namespaces == named


@pytest.mark.parametrize(
    ("selector", "name", "labels", "expected"),
    [
        (None, "shop", None, True),
        ({"matchLabels": {"tier": "gold"}}, "shop", {"tier": "gold"}, True),
        ({"matchLabels": {"tier": "gold"}}, "shop", {"tier": "iron"}, False),
        ({"matchLabels": {"tier": "gold"}}, "shop", None, False),
        ({"matchLabels": {NAME: "shop"}}, "shop", {NAME: "shop"}, True),
        ({"matchLabels": {NAME: "shop"}}, "shop", None, False),
        ({"matchLabels": {NAME: "shop"}}, "bar", {NAME: "bar"}, False),
        # the label alone does not select a namespace of another name
        ({"matchLabels": {NAME: "shop"}}, "bar", {NAME: "shop"}, False),
    ],
)
def test_a_namespace_is_selected_by_its_labels_and_its_name(
    selector: Any, name: str, labels: dict[str, str] | None, *, expected: bool
) -> None:
    """sidecarset case 36"""
    assert stored(namespaceSelector=selector).selects_namespace(name, labels) is expected


# ── its fields ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("annotations", "base"),
    [
        ({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "log"}, "log"),
        ({"apps.kruise.io/sidecarset-canary": "false", "apps.kruise.io/sidecarset-base": "log"}, ""),
        ({"apps.kruise.io/sidecarset-base": "log"}, ""),
        ({"apps.kruise.io/sidecarset-canary": "true"}, ""),
        ({}, ""),
    ],
)
def test_a_canary_has_both_annotations(annotations: dict[str, str], base: str) -> None:
    """section 3.1"""
    assert stored(metadata={"annotations": annotations}).base == base


def test_only_a_canary_keeps_existing_pods_unchanged() -> None:
    assert view(canary("trial", container("log"), base="log")).is_only_injected
    assert not stored().is_only_injected


@pytest.mark.parametrize(
    ("annotations", "full", "imageless"),
    [
        ({FULL: "f", IMAGELESS: "i"}, "f", "i"),
        ({FULL: "f"}, "f", ""),
        ({IMAGELESS: "i"}, "", "i"),
        ({}, "", ""),
    ],
)
def test_hashes_are_read_from_annotations_or_else_computed(
    annotations: dict[str, str], full: str, imageless: str
) -> None:
    """section 6.7"""
    reckoned = hashes_of({"containers": [container("log")]})
    hashes = stored(metadata={"annotations": annotations}).hashes
    assert (hashes.full, hashes.without_image) == (full or reckoned.full, imageless or reckoned.without_image)


# ── its revision ─────────────────────────────────────────────────────────────


def revision(status: Any) -> str:
    contents = stored(status=status).contents
    assert contents is not None
    return contents.revision


def test_the_revision_is_read_from_the_status_of_this_generation_or_else_computed() -> None:
    reported = {"latestRevision": "log-x", "observedGeneration": 3}
    assert revision(reported) == "log-x"
    # or as it will be called
    own = revision(None)
    assert own.startswith("log-")
    assert own != "log-x"
    assert revision({**reported, "observedGeneration": 2}) == own
    assert revision({"observedGeneration": 3}) == own
    assert revision({"collisionCount": None}) == own
    assert revision({"collisionCount": 1}) not in (own, "log-x")


def test_an_unreadable_status_counts_as_missing() -> None:
    assert revision({"observedGeneration": "text", "latestRevision": "log-x"}) == revision(None)
    assert stored(status={"matchedPods": "text"}).status.matched_pods == 0
