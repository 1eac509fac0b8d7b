"""Errors of sidecars, also of those that were stored or sent without defaults."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.kind import KIND
from pykruise.kinds.sidecarset.sidecar_rules import find_sidecar_errors
from pykruise.kube.documents import Document
from support.sidecarsets import container, hot, sidecarset, view


def errors(*containers: Document, stored: list[Document] | None = None, **spec: Any) -> list[tuple[str, str]]:
    """Reason and field of every error; `stored`: the previous containers."""
    old = None if stored is None else {"containers": stored}
    causes = find_sidecar_errors({"containers": list(containers), **spec}, stored=old)
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes]


def plain(name: str = "a", **fields: Any) -> Document:
    """A container that is valid in a pod."""
    return {**container(name), "terminationMessagePolicy": "File", "imagePullPolicy": "Always", **fields}


def test_a_missing_list_of_containers_is_valid() -> None:
    assert errors(containers=None, initContainers=[plain()]) == []
    assert errors(containers=None, initContainers=[plain()], stored=[plain()]) == []
    assert errors(plain(), initContainers=None, volumes=None) == []


def test_an_error_of_a_new_sidecarset_is_reported() -> None:
    assert errors(plain(podInjectPolicy="Beside")) == [("Invalid", "spec.containers[0].podInjectPolicy")]


def test_settings_of_init_containers_are_validated_too() -> None:
    init = [plain("i", podInjectPolicy="Beside")]
    assert errors(plain(), initContainers=init) == [("Invalid", "spec.initContainers[0].podInjectPolicy")]


REFERRING = {
    "envName": "A",
    "sourceContainerNameFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
}


@pytest.mark.parametrize(
    ("group", "fields", "has_effect"),
    [
        ("initContainers", {"podInjectPolicy": "Beside"}, False),
        ("initContainers", {"shareVolumePolicy": {"type": "on"}}, False),
        ("initContainers", {"shareVolumeDevicePolicy": {"type": "on"}}, False),
        ("initContainers", {"transferEnv": [REFERRING]}, False),
        ("containers", {"shareVolumeDevicePolicy": {"type": "on"}}, False),
        ("containers", {"podInjectPolicy": "Beside"}, True),
        ("containers", {"shareVolumePolicy": {"type": "on"}}, True),
        ("containers", {"transferEnv": [REFERRING]}, True),
        (
            "initContainers",
            {"resourcesPolicy": {"targetContainersMode": "sum"}, "restartPolicy": "Always"},
            True,
        ),
    ],
)
def test_stored_settings_that_openkruise_accepts_are_no_problem(
    group: str, fields: Document, *, has_effect: bool
) -> None:
    """section 5.4"""
    # given
    lists = {"containers": [plain()], "initContainers": [plain("i")]} | {group: [plain("x", **fields)]}
    stored = view(sidecarset("s", updateStrategy={"type": "NotUpdate"}, **lists)).spec
    # then admission rejects new ones
    assert errors(**lists) != []
    assert KIND.stored is not None
    assert (KIND.stored.flaws_of(stored) != ()) is has_effect


@pytest.mark.parametrize("policy", [None, "", "Always"])
def test_an_init_container_runs_to_its_end_or_always(policy: str | None) -> None:
    assert errors(plain(), initContainers=[plain("i", restartPolicy=policy)]) == []
    assert errors(plain(), initContainers=[plain("i", restartPolicy="OnFailure")]) == [
        ("NotSupported", "spec.initContainers[0].restartPolicy")
    ]


def test_a_sidecar_container_has_no_restart_policy() -> None:
    assert errors(plain(restartPolicy="Always")) == [("Forbidden", "spec.containers[0].restartPolicy")]
    assert errors(plain(restartPolicy="")) == []


# ── variables and resources ──────────────────────────────────────────────────

REFERENCE = "spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"sourceContainerName": "main"}, []),
        ({"sourceContainerNameFrom": {}}, []),
        ({"sourceContainerNameFrom": None}, []),
        ({"fieldPath": "metadata.labels['a']"}, [("Required", f"{REFERENCE}.apiVersion")]),
        ({"apiVersion": "v1"}, [("Required", f"{REFERENCE}.fieldPath")]),
        (
            {"apiVersion": "v2", "fieldPath": "metadata.labels['a']"},
            [("Invalid", f"{REFERENCE}.fieldPath")],
        ),
        # the domain of a label key is in lower case; for annotations this is not checked
        ({"apiVersion": "v1", "fieldPath": "metadata.labels['Example.com/a']"}, [("Invalid", REFERENCE)]),
        ({"apiVersion": "v1", "fieldPath": "metadata.annotations['Example.com/a']"}, []),
    ],
)
def test_a_transferred_variable_needs_a_source_container_or_a_valid_field(
    item: Document, expected: list[Any]
) -> None:
    """section 5.4"""
    given = (
        item
        if "fieldPath" not in item and "apiVersion" not in item
        else {"sourceContainerNameFrom": {"fieldRef": item}}
    )
    assert errors(plain(transferEnv=[{**given, "envName": "A"}])) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"resourcesExpr": {"limits": {"cpu": "cpu"}}}, []),
        ({"resourcesExpr": {"limits": {"cpu": "cpu"}}, "targetContainersNameRegex": None}, []),
        ({"resourcesExpr": {"limits": {"cpu": "cpu"}}, "targetContainersNameRegex": ""}, []),
        ({"targetContainersMode": "sum"}, [("Invalid", "spec.containers[0].resourcesPolicy.resourcesExpr")]),
        ({"resourcesExpr": None, "a": 1}, [("Invalid", "spec.containers[0].resourcesPolicy.resourcesExpr")]),
    ],
)
def test_a_resources_policy_needs_target_containers_and_expressions(
    fields: Document, expected: list[Any]
) -> None:
    """section 5.4"""
    assert errors(plain(resourcesPolicy=fields)) == expected


@pytest.mark.parametrize("bound", ["limits", "requests"])
def test_resources_and_a_resources_policy_are_mutually_exclusive(bound: str) -> None:
    """sidecarset case 26"""
    policy = {"resourcesExpr": {"limits": {"cpu": "cpu"}}}
    both = plain(resourcesPolicy=policy, resources={bound: {"cpu": "1"}})
    assert ("Invalid", "spec.containers[0].resourcesPolicy") in errors(both)
    assert errors(plain(resourcesPolicy=policy, resources={bound: {}})) == []


# ── hot sidecars ─────────────────────────────────────────────────────────────

EMPTY_IMAGE = "upgradeStrategy.hotUpgradeEmptyImage"


def test_a_stored_hot_sidecar_may_keep_a_missing_empty_image_at_any_position() -> None:
    """pitfall 15"""
    without, also = (plain(name, upgradeStrategy=hot(name, empty="")["upgradeStrategy"]) for name in "ab")
    having = plain("a", upgradeStrategy=hot("a")["upgradeStrategy"])
    required = ("Required", f"spec.containers[0].{EMPTY_IMAGE}")
    # given a stored sidecar without the image
    assert errors(plain("b"), without, stored=[without, plain("b")]) == []
    # and given a stored sidecar with the image, or a stored cold one
    assert errors(without, stored=[having]) == [required]
    assert errors(without, stored=[plain("a")]) == [required]
    assert errors(without, also, stored=[without, plain("b")]) == [
        ("Required", f"spec.containers[1].{EMPTY_IMAGE}")
    ]


@pytest.mark.parametrize(
    "strategy", [{}, {"upgradeStrategy": None}, {"upgradeStrategy": {"upgradeType": ""}}]
)
def test_an_upgrade_type_may_be_added_but_not_removed(strategy: Document) -> None:
    """section 5.4"""
    now = plain("a", upgradeStrategy=hot("a")["upgradeStrategy"])
    assert errors(now, stored=[plain("a", **strategy)]) == []
    field = "spec.containers.upgradeStrategy.upgradeType"
    assert errors(plain("a", **strategy), stored=[now]) == [("Invalid", field)]


def test_only_the_two_names_of_a_hot_pair_must_be_free() -> None:
    strategy = hot("mesh")["upgradeStrategy"]
    pair = [plain("mesh"), plain("mesh-2")]
    assert errors(*pair) == []
    for name in ("mesh-1", "mesh-2"):
        assert errors(plain("mesh", upgradeStrategy=strategy), plain(name)) == [
            ("Duplicate", "spec.containers[0].name")
        ]
        assert errors(plain("mesh", upgradeStrategy=strategy), initContainers=[plain(name)]) == [
            ("Duplicate", "spec.containers[0].name")
        ]


def test_a_name_that_is_wrong_is_reported_once() -> None:
    strategy = hot("mesh")["upgradeStrategy"]
    assert errors(plain("A_b", upgradeStrategy=strategy)) == [("Invalid", "spec.containers[0].name")]
    nameless = plain(upgradeStrategy=strategy)
    del nameless["name"]
    assert errors(nameless) == [("Required", "spec.containers[0].name")]
