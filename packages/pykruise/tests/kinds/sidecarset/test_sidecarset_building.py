"""How much one pod's sidecars may take from it."""

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
