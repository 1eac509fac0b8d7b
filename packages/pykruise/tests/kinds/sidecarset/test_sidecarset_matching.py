"""SidecarSets that inject into a new pod, and the revision of each."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.hashes import hashes_of
from pykruise.kinds.sidecarset.matching import choose_contents, select_candidates, select_matching_sets
from pykruise.kinds.sidecarset.revisions import SET_LABEL, candidate_of
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.documents import Document
from pykruise.pods.workload.revisions import RevisionView
from support.sidecarsets import by_name, canary, container, injected, pod, sidecarset, view

LABELS = {"app": "web"}


def revision(name: str, *, number: int, version: str = "", image: str = "log:1") -> RevisionView:
    restored = candidate_of(sidecarset("log", container("log", image))["spec"])
    labels = {SET_LABEL: "log", **({"apps.kruise.io/sidecarset-custom-version": version} if version else {})}
    return RevisionView(
        namespace="kruise-system",
        name=name,
        uid=name,
        resource_version=1,
        number=number,
        labels=labels,
        template=restored.template,
        meaning=restored.meaning,
    )


STORED = (
    revision("log-1", number=1, version="v1"),
    revision("log-2", number=2, version="v1", image="log:1.1"),
    revision("log-3", number=3, image="log:2"),
)


def wanting(strategy: Any = None, **choice: Any) -> Document:
    """A SidecarSet with log:2 that asks for a revision to be injected."""
    fields: dict[str, Any] = {"injectionStrategy": {"revision": choice}}
    return sidecarset("log", container("log", "log:2"), updateStrategy=strategy or {}, **fields)


def image(doc: Document, *, draw: float = 0.5) -> str:
    """The image that a pod gets."""
    contents = choose_contents(view(doc), labels=LABELS, revisions=STORED, draw=lambda: draw)
    return contents.containers[0].image


def test_the_current_spec_is_injected_without_a_choice() -> None:
    assert image(sidecarset("log", container("log", "log:2"))) == "log:2"
    assert image(wanting(policy="Always")) == "log:2"


def test_always_injects_the_revision_and_records_its_name_and_hash() -> None:
    """sidecarset case 48"""
    doc = wanting(revisionName="log-1", policy="Always")
    result = injected(pod(), doc, revisions={"log": STORED})
    assert result is not None
    assert by_name(result, "log")["image"] == "log:1"
    recorded = result["metadata"]["annotations"]["kruise.io/sidecarset-hash"]
    assert '"controllerRevision":"log-1"' in recorded
    assert view(doc).hashes.full not in recorded


def test_a_revision_name_precedes_a_custom_version_of_which_the_newest_counts() -> None:
    assert image(wanting(customVersion="v1")) == "log:1.1"
    assert image(wanting(customVersion="v1", revisionName="log-1")) == "log:1"


def test_hashes_missing_in_a_revision_are_computed() -> None:
    """section 6.7"""
    contents = choose_contents(
        view(wanting(revisionName="log-1")), labels=LABELS, revisions=STORED, draw=lambda: 0.5
    )
    assert contents.hashes == hashes_of({"containers": [container("log")]})


@pytest.mark.parametrize(
    ("strategy", "draw", "expected"),
    [
        ({"selector": {"matchLabels": {"canary": "yes"}}}, 0.5, "log:1"),
        ({"selector": {"matchLabels": {"app": "web"}}}, 0.5, "log:2"),
        ({}, 0.5, "log:2"),
        ({"partition": 5}, 0.5, "log:2"),
        ({"partition": "100%"}, 0.999, "log:1"),
        ({"partition": "0%"}, 0.0, "log:2"),
        ({"partition": "30%"}, 0.29, "log:1"),
        ({"partition": "30%"}, 0.31, "log:2"),
        ({"partition": "50%"}, 0.5, "log:1"),
        ({"partition": "50%"}, 0.501, "log:2"),
    ],
)
def test_partial_leaves_to_the_update_strategy_which_pods_get_it(
    strategy: Any, draw: float, expected: str
) -> None:
    """sidecarset case 49"""
    assert image(wanting(strategy, revisionName="log-1", policy="Partial"), draw=draw) == expected


@pytest.mark.parametrize("strategy", [None, {}, {"partition": None}])
def test_partial_gives_the_current_spec_without_a_strategy(strategy: Any) -> None:
    """The SidecarSet was stored without admission; sidecarset case 49"""
    doc = wanting(revisionName="log-1", policy="Partial")
    doc["spec"]["updateStrategy"] = strategy
    contents = choose_contents(
        view(doc, is_admitted=False), labels=LABELS, revisions=STORED, draw=lambda: 0.0
    )
    assert contents.containers[0].image == "log:2"


def test_an_invalid_partition_refuses_the_pod() -> None:
    """sidecarset case 49"""
    with pytest.raises(InjectionError, match="abc%"):
        image(wanting({"partition": "abc%"}, revisionName="log-1", policy="Partial"))


def test_while_upgrades_are_paused_every_pod_gets_the_revision() -> None:
    """sidecarset case 50"""
    paused = {"partition": "0%", "paused": True}
    assert image(wanting(paused, revisionName="log-1", policy="Partial")) == "log:1"


def test_a_missing_revision_refuses_the_pod() -> None:
    """sidecarset case 51"""
    with pytest.raises(InjectionError, match="log-9") as caught:
        injected(pod(), wanting(revisionName="log-9"), revisions={"log": STORED})
    assert caught.value.sidecarset == "log"


def test_a_version_that_no_revision_has_is_named() -> None:
    with pytest.raises(InjectionError, match="custom version v9 of SidecarSet log is not stored"):
        image(wanting(customVersion="v9"))


def test_a_revision_that_cannot_be_read_refuses_the_pod() -> None:
    broken = msgspec.structs.replace(STORED[0], template={"containers": ["text"]})
    with pytest.raises(InjectionError, match=r"revision log-1 cannot be read: spec\.containers\[0\]"):
        injected(pod(), wanting(revisionName="log-1"), revisions={"log": [broken]})


# ── the SidecarSets ──────────────────────────────────────────────────────────


def matching(*sets: SidecarSetView, namespace_labels: dict[str, str] | None = None) -> list[str]:
    """Names of the SidecarSets that inject into a pod of the namespace shop, in their order."""
    sidecar_sets = select_matching_sets(
        sets, labels=LABELS, namespace="shop", namespace_labels=namespace_labels or {}
    )
    return [sidecar_set.name for sidecar_set in sidecar_sets]


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Nope"}]}},
        {"updateStrategy": {"paused": "yes"}},
        {"initContainers": ["text"]},
        {"selector": {}},
        {"injectionStrategy": {"paused": True}},
    ],
)
def test_an_unreadable_or_paused_sidecarset_injects_nothing(spec: Any) -> None:
    """section 6.1"""
    sets = [
        view(sidecarset("a", container("a"), **spec), is_admitted=False),
        view(sidecarset("b", container("b"))),
    ]
    assert matching(*sets) == ["b"]
    assert [candidate.name for candidate in select_candidates(sets, labels=LABELS)] == ["b"]


def test_sidecarsets_with_a_namespace_name_are_applied_first_and_each_group_by_name() -> None:
    """section 6.1, pitfall 22"""
    key = "kubernetes.io/metadata.name"
    labels = {key: "shop", "tier": "gold"}
    sets = [
        view(sidecarset(name, container(name), namespaceSelector=selector))
        for name, selector in (
            ("d", None),
            ("z", {"matchLabels": {key: "shop"}}),
            ("c", {"matchLabels": {"tier": "gold"}}),
            ("y", {"matchLabels": {key: "shop"}}),
            ("a", {"matchLabels": {"tier": "iron"}}),
        )
    ]
    assert matching(*sets, namespace_labels=labels) == ["y", "z", "c", "d"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [({}, ["other", "trial"]), ({"injectionStrategy": {"paused": True}}, ["log", "other"])],
)
def test_a_canary_that_injects_replaces_its_base(strategy: Any, expected: list[str]) -> None:
    """sidecarset case 37"""
    sets = [
        view(canary("trial", container("log"), base="log", **strategy)),
        view(sidecarset("log", container("log"))),
        view(sidecarset("other", container("other"))),
    ]
    assert matching(*sets) == expected


def test_the_draw_is_of_the_seed_alone() -> None:
    doc = wanting({"partition": "50%"}, revisionName="log-1", policy="Partial")
    images = [
        by_name(injected(pod(), doc, revisions={"log": STORED}, seed=seed) or {}, "log")["image"]
        for seed in (*range(40), *range(40))
    ]
    assert images[:40] == images[40:]
    assert {"log:1", "log:2"} == set(images)
