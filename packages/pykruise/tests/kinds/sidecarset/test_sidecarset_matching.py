"""Which revision of a SidecarSet a new pod gets."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.matching import chosen_contents
from pykruise.kinds.sidecarset.revisions import SET_LABEL, candidate_of
from pykruise.kube.documents import Document
from pykruise.pods.revisions import RevisionView
from support.sidecarsets import by_name, container, injected, pod, sidecarset, view

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
    """The SidecarSet at log:2, which asks for a revision to be injected."""
    fields: dict[str, Any] = {"injectionStrategy": {"revision": choice}}
    return sidecarset("log", container("log", "log:2"), updateStrategy=strategy or {}, **fields)


def image(doc: Document, *, draw: float = 0.5) -> str:
    """The image that a pod gets."""
    found = chosen_contents(view(doc), labels=LABELS, revisions=STORED, draw=lambda: draw)
    return found.containers[0].image


def test_without_a_choice_the_present_spec_is_injected() -> None:
    assert image(sidecarset("log", container("log", "log:2"))) == "log:2"
    assert image(wanting(policy="Always")) == "log:2"


def test_always_injects_the_revision_and_records_its_name_and_hash() -> None:
    """case 48"""
    doc = wanting(revisionName="log-1", policy="Always")
    found = injected(pod(), doc, revisions={"log": STORED})
    assert found is not None
    assert by_name(found, "log")["image"] == "log:1"
    recorded = found["metadata"]["annotations"]["kruise.io/sidecarset-hash"]
    assert '"controllerRevision":"log-1"' in recorded
    assert view(doc).hashes.full not in recorded


def test_a_name_goes_before_a_version_of_which_the_newest_counts() -> None:
    assert image(wanting(customVersion="v1")) == "log:1.1"
    assert image(wanting(customVersion="v1", revisionName="log-1")) == "log:1"


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
    ],
)
def test_partial_leaves_to_the_update_strategy_which_pods_get_it(
    strategy: Any, draw: float, expected: str
) -> None:
    """case 49"""
    assert image(wanting(strategy, revisionName="log-1", policy="Partial"), draw=draw) == expected


def test_a_partition_that_is_none_refuses_the_pod() -> None:
    """case 49"""
    with pytest.raises(InjectionError, match="abc%"):
        image(wanting({"partition": "abc%"}, revisionName="log-1", policy="Partial"))


def test_while_upgrades_are_paused_every_pod_gets_the_revision() -> None:
    """case 50"""
    paused = {"partition": "0%", "paused": True}
    assert image(wanting(paused, revisionName="log-1", policy="Partial")) == "log:1"


def test_a_revision_that_is_gone_refuses_the_pod() -> None:
    """case 51"""
    with pytest.raises(InjectionError, match="log-9") as caught:
        injected(pod(), wanting(revisionName="log-9"), revisions={"log": STORED})
    assert caught.value.sidecarset == "log"


def test_the_draw_is_of_the_seed_alone() -> None:
    doc = wanting({"partition": "50%"}, revisionName="log-1", policy="Partial")
    images = [
        by_name(injected(pod(), doc, revisions={"log": STORED}, seed=seed) or {}, "log")["image"]
        for seed in (*range(40), *range(40))
    ]
    assert images[:40] == images[40:]
    assert {"log:1", "log:2"} == set(images)
