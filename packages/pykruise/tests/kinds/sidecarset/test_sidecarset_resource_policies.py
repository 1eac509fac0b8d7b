"""Resources of a sidecar, computed from those of the pod's own containers."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.resource_policies import SidecarAmountError, compute_resources
from pykruise.kinds.sidecarset.types import ResourceAmounts, ResourceExpressions, ResourcesPolicy
from pykruise.kube.documents import Document


def asking(*, mode: str = "sum", regex: str = ".*", cpu: str = "cpu") -> ResourcesPolicy:
    """A policy that gives a sidecar requests of cpu."""
    return ResourcesPolicy(
        target_containers_mode=mode,
        target_containers_name_regex=regex,
        resources_expr=ResourceExpressions(requests=ResourceAmounts(cpu=cpu)),
    )


def requesting(**amounts: str | None) -> Document:
    """A pod spec: its containers, and the cpu that each one requests."""
    return {
        "containers": [
            {"name": name, "resources": {"requests": {"cpu": amount}} if amount else None}
            for name, amount in amounts.items()
        ]
    }


def requested(pod: Document, policy: ResourcesPolicy) -> str:
    """The cpu that the sidecar requests."""
    return str(compute_resources(pod, policy, sidecars=())["requests"]["cpu"])


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_containers_without_requests_sum_to_zero(mode: str) -> None:
    """sidecarset case 54"""
    assert requested(requesting(app=None, other=None), asking(mode=mode)) == "0"


@pytest.mark.parametrize(
    ("regex", "amount"),
    [
        ("^app$", "1"),
        ("^app", "3"),
        ("p", "7"),
        ("", "7"),
        (".*", "7"),
    ],
)
def test_containers_count_whose_names_match(regex: str, amount: str) -> None:
    pod = requesting(app="1", application="2", proxy="4")
    assert requested(pod, asking(regex=regex)) == amount


@pytest.mark.parametrize("nameless", [{}, {"name": None}, {"name": ""}])
def test_a_container_without_a_name_matches_only_what_matches_everything(nameless: dict[str, Any]) -> None:
    """Webhooks review a new pod before the API server validates it."""
    pod = {"containers": [{**nameless, "resources": {"requests": {"cpu": "1"}}}]}
    assert requested(pod, asking()) == "1"
    with pytest.raises(SidecarAmountError, match="no containers match the regex pattern 'None'"):
        requested(pod, asking(regex="None"))


def test_an_empty_pattern_is_reported_as_its_default() -> None:
    with pytest.raises(SidecarAmountError, match=r"no containers match the regex pattern '\.\*'"):
        requested({"containers": []}, asking(regex=""))


def test_an_incomputable_resource_amount_is_named() -> None:
    with pytest.raises(SidecarAmountError, match="'much' of a container is not a quantity"):
        requested(requesting(app="much"), asking())
    with pytest.raises(
        SidecarAmountError, match=r"targetContainersNameRegex '\[' is not a regular expression"
    ):
        requested(requesting(app="1"), asking(regex="["))
    with pytest.raises(SidecarAmountError, match=r"resourcesExpr\.requests\.cpu 'cpu - 2' evaluates to -1"):
        requested(requesting(app="1"), asking(cpu="cpu - 2"))
