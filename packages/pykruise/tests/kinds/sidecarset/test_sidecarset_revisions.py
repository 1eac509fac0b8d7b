"""Revisions of a SidecarSet: their storage, the injected one, and the kept ones."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.hashes import Hashes
from pykruise.kinds.sidecarset.revisions import (
    SET_LABEL,
    candidate_of,
    find_revision,
    read_recorded_hashes,
    to_remove,
)
from pykruise.kinds.sidecarset.types import RevisionChoice
from pykruise.pods.workload.revisions import RevisionView
from support.sidecarsets import container

CUSTOM_VERSION = "apps.kruise.io/sidecarset-custom-version"
HASH = "kruise.io/sidecarset-hash"
IMAGELESS = "kruise.io/sidecarset-hash-without-image"
SPEC = {"containers": [container("log")]}


def revision(name: str, *, version: str | None = None, **fields: Any) -> RevisionView:
    """A revision of the SidecarSet `log`."""
    candidate = candidate_of(SPEC)
    labels = {SET_LABEL: "log", **({CUSTOM_VERSION: version} if version is not None else {})}
    given = {"resource_version": 1, "number": 1, "labels": labels, **fields}
    return RevisionView(
        namespace="kruise-system",
        name=name,
        uid=name,
        template=candidate.template,
        meaning=candidate.meaning,
        **given,
    )


def test_the_text_is_that_of_the_original() -> None:
    """section 6.7: keys are sorted, sidecars are typed, and all other fields are unchanged"""
    spec = {
        "volumes": [{"name": "v", "emptyDir": {}, "somethingNew": 1}],
        "initContainers": [],
        "containers": [{"name": "log", "image": "log:1", "somethingNew": 1}],
        "selector": {},
    }
    assert candidate_of(spec).data == (
        b'{"spec":{"$patch":"replace","containers":[{"image":"log:1","name":"log","resources":{},'
        b'"shareVolumePolicy":{},"upgradeStrategy":{}}],"imagePullSecrets":null,"initContainers":[],'
        b'"patchPodMetadata":null,"volumes":[{"emptyDir":{},"name":"v","somethingNew":1}]}}'
    )


# ── the injected revision ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"revision_name": "log-1"}, "log-1"),
        ({"revision_name": "log-9"}, None),
        ({"revision_name": "log-1", "custom_version": "v2"}, "log-1"),
        # the newest one of a custom version: by number, then creation, then name
        ({"custom_version": "v2"}, "log-5"),
        ({"custom_version": "v3"}, "log-7"),
        ({"custom_version": "v4"}, "log-9b"),
        ({"custom_version": "v9"}, None),
        # an empty choice finds no revision, not even one without a version
        ({}, None),
    ],
)
def test_a_revision_is_found_by_its_name_or_as_the_newest_of_a_version(
    wanted: dict[str, str], expected: str | None
) -> None:
    """section 6.7"""
    stored = [
        revision("log-1"),
        revision("log-5", version="v2", number=3),
        revision("log-3", version="v2", number=2),
        revision("log-7", version="v3", number=4, created_at=20.0),
        revision("log-8", version="v3", number=4, created_at=10.0),
        revision("log-9b", version="v4", number=5),
        revision("log-9a", version="v4", number=5),
    ]
    result = find_revision(RevisionChoice(**wanted), stored, sidecarset="log")
    assert (result.name if result else None) == expected


def test_a_revision_of_another_sidecarset_does_not_count() -> None:
    """pitfall 16"""
    stored = [revision("log-1", version="v1")]
    for choice in (RevisionChoice(revision_name="log-1"), RevisionChoice(custom_version="v1")):
        assert find_revision(choice, stored, sidecarset="other") is None


def test_hashes_are_those_that_were_recorded_with_it_if_both_were() -> None:
    """section 6.7: otherwise they are computed at the injection"""
    full, imageless = {HASH: "full"}, {IMAGELESS: "imageless"}
    assert read_recorded_hashes(revision("log-1", annotations={**full, **imageless})) == Hashes(
        "full", "imageless"
    )
    for annotations in (full, imageless, {}):
        assert read_recorded_hashes(revision("log-1", annotations=annotations)) is None


# ── kept revisions ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("names", "limit", "removed"),
    [
        # the oldest ones, and never the last one
        ("abcd", 2, "ab"),
        ("abcd", 1, "abc"),
        ("abcd", 0, "abc"),
        ("abcd", 4, ""),
        ("abcd", 10, ""),
        # `U`: in use
        ("aUcd", 1, "ac"),
        ("UUcd", 2, "c"),
        # `D`: terminating
        ("aDcd", 2, "a"),
        ("abDd", 2, "a"),
        ("DDcd", 1, "c"),
        ("DDDd", 0, ""),
        # the last one will be stored again
        ("abD", 2, "a"),
    ],
)
def test_revisions_beyond_the_limit_are_deleted_unless_in_use(names: str, limit: int, removed: str) -> None:
    """sidecarset case 77"""
    stored = [revision(f"{name}{place}", is_deleting=name == "D") for place, name in enumerate(names)]
    in_use = {revision.name for revision in stored if revision.name.startswith("U")}
    assert "".join(revision.name[0] for revision in to_remove(stored, in_use=in_use, limit=limit)) == removed
