"""Limits of what the sidecars of one pod copy from it, in number and in time."""

import pytest

from pykruise.kinds.sidecarset import injection
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kube.documents import Document
from support.sidecarsets import container, injected, pod, sidecarset

ENABLED = {"type": "enabled"}
POLICY = {"targetContainersMode": "sum", "resourcesExpr": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("sidecar", "takes"),
    [
        (container("a"), 0),
        # two mounts, and the variable of a sub-path
        (container("a", shareVolumePolicy=ENABLED), 3),
        (container("a", shareVolumeDevicePolicy=ENABLED), 1),
        # both containers
        (container("a", resourcesPolicy=POLICY), 2),
        (
            container(
                "a", shareVolumePolicy=ENABLED, shareVolumeDevicePolicy=ENABLED, resourcesPolicy=POLICY
            ),
            6,
        ),
    ],
)
def test_a_sidecar_takes_what_it_shares_and_is_refused_beyond_the_bound(
    monkeypatch: pytest.MonkeyPatch, sidecar: Document, takes: int
) -> None:
    # given
    main = container(
        "main",
        env=[{"name": "POD", "value": "x"}, {"name": "B", "value": "x"}],
        volumeMounts=[
            {"name": "v", "mountPath": "/v"},
            {"name": "w", "mountPath": "/w", "subPathExpr": "$(POD)"},
        ],
        volumeDevices=[{"name": "d", "devicePath": "/dev/x"}],
    )
    doc = pod(main, container("none"))
    sets = sidecarset("s", sidecar, container("neighbour", shareVolumePolicy=ENABLED))
    takes += 3
    # then
    monkeypatch.setattr(injection, "MOST_TAKEN", takes)
    assert injected(doc, sets) is not None
    monkeypatch.setattr(injection, "MOST_TAKEN", takes - 1)
    with pytest.raises(InjectionError):
        injected(doc, sets)


def test_a_pattern_is_read_as_the_original_reads_it_and_never_tries_again() -> None:
    """An engine with backtracking would need longer for a name of 63 letters than any client waits."""
    # given
    doc = pod({"name": "a" * 62 + "0", "image": "m"})
    policy = {**POLICY, "targetContainersNameRegex": r"^([a-z]+-?)+$"}
    slow = container("a", resourcesPolicy=policy)
    # then
    with pytest.raises(InjectionError, match="no containers match"):
        injected(doc, sidecarset("s", slow))


def test_sidecars_take_a_bounded_number_of_mounts_from_a_pod() -> None:
    # given a pod with many mounts, which each sidecar would get
    mounts = [{"name": "v", "mountPath": f"/{number}"} for number in range(1_001)]
    doc = pod({"name": "main", "image": "m", "volumeMounts": mounts}, volumes=[{"name": "v"}])
    sharing = [container(f"s{number}", shareVolumePolicy={"type": "enabled"}) for number in range(50)]
    # then as many are possible as an object has room for
    assert injected(doc, sidecarset("s", *sharing[:49])) is not None
    with pytest.raises(InjectionError, match="at most 50000 mounts, devices and resources"):
        injected(doc, sidecarset("s", *sharing))
