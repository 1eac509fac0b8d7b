"""Defaults that admission writes into a SidecarSet."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.hashes import hashes_of
from pykruise.kube.documents import Document
from support.sidecarsets import container, sidecarset


def defaulted(*containers: Document, **spec: Any) -> Document:
    """The spec with its defaults."""
    result: Document = add_defaults(sidecarset("s", *containers, **spec))["spec"]
    return result


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (
            {"revisionName": "s-1"},
            {"revisionName": "s-1", "policy": "Always"},
        ),
        (
            {"customVersion": "v1", "policy": ""},
            {"customVersion": "v1", "policy": "Always"},
        ),
        (
            {"customVersion": "v1", "policy": "Partial"},
            {"customVersion": "v1", "policy": "Partial"},
        ),
        ({}, {"policy": "Always"}),
    ],
)
def test_the_injection_policy_of_a_revision_is_always_by_default(given: Document, stored: Document) -> None:
    """section 4, step 7"""
    result = defaulted(container("a"), injectionStrategy={"paused": True, "revision": given})
    assert result["injectionStrategy"] == {"paused": True, "revision": stored}


@pytest.mark.parametrize("strategy", [{"paused": True}, {"revision": None}])
def test_no_revision_is_added_by_default(strategy: Document) -> None:
    result = defaulted(container("a"), injectionStrategy=strategy)
    assert (result["injectionStrategy"].get("revision"), "policy" in result["injectionStrategy"]) == (
        None,
        False,
    )


@pytest.mark.parametrize(
    ("source", "stored"),
    [
        ({"fieldRef": {"fieldPath": "p"}}, {"fieldRef": {"fieldPath": "p", "apiVersion": "v1"}}),
        (
            {"fieldRef": {"fieldPath": "p", "apiVersion": "v2"}},
            {"fieldRef": {"fieldPath": "p", "apiVersion": "v2"}},
        ),
        ({}, {}),
    ],
)
def test_the_field_reference_of_a_transferred_variable_gets_the_api_version_v1(
    source: Document, stored: Document
) -> None:
    """section 4, step 3: a reference without a field is left as it is"""
    item = {"envName": "A", "sourceContainerNameFrom": source}
    (result,) = defaulted(container("a", transferEnv=[item]))["containers"]
    assert result["transferEnv"] == [{"envName": "A", "sourceContainerNameFrom": stored}]


def test_the_hashes_are_computed_from_the_stored_spec_over_a_clients_values() -> None:
    """sidecarset case 2"""
    hashes = "kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"
    sent = {"annotations": {hashes[0]: "mine", "kept": "yes"}}
    for metadata in (sent, {"annotations": None}):
        result = add_defaults(sidecarset("s", container("a"), metadata=metadata))
        reckoned = hashes_of(result["spec"])
        annotations = result["metadata"]["annotations"]
        assert [annotations[key] for key in hashes] == [reckoned.full, reckoned.without_image]
    without_metadata = {"spec": {"containers": [container("a")]}}
    assert set(add_defaults(without_metadata)["metadata"]["annotations"]) == set(hashes)


@pytest.mark.parametrize("given", [0, None])
def test_the_numbers_of_a_probe_get_defaults_except_in_a_startup_probe(given: int | None) -> None:
    probe = {"exec": {"command": ["a"]}, "periodSeconds": given}
    (result,) = defaulted(container("a", livenessProbe=probe, startupProbe=probe))["containers"]
    assert (result["livenessProbe"]["periodSeconds"], result["startupProbe"]) == (10, probe)
