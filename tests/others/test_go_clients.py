"""client-go's dynamic client, informers, scale client and RESTMapper, and the typed clients of kruise-api, unchanged.

A small program in Go (testbed/client-go-*) does the same work as the Python clients. It ends with an error at the
first wrong result.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from others.client_work import SEEN_BY, Place, Work
from others.modules import version_in_module
from others.programs import program_of
from testbed.build import CLIENT_GO, Part

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

RELEASE: Final = CLIENT_GO.minors[-1]
ADDED: Final = {
    "SidecarSet": ('unknown field "status.conditions"',),
    "WorkloadSpread": ('unknown field "status.spread"',),
}
"""Fields that pykruise's definitions have and OpenKruise's do not; typed clients leave them out."""


def as_json(work: Work) -> dict[str, Any]:
    """The work as JSON, for programs in other languages."""
    return {**work._asdict(), "name": work.name, "namespace": work.namespace or "", "seen_by": SEEN_BY}


@pytest.mark.program(
    "client-go",
    version_in_module("k8s.io/client-go", f"client-go-{RELEASE}"),
    "every kind in every version: RESTMapper, dynamic client and informers, scale client, status",
)
@pytest.mark.program(
    "kruise-api (typed Go clients)",
    version_in_module("github.com/openkruise/kruise-api", f"client-go-{RELEASE}"),
    "every kind of the module: create, patch, informers; its types have every field that is served",
)
def test_go_clients_work_with_every_kind_in_every_version(
    place: Place, needed: Callable[[Part, str], Path]
) -> None:
    ask = program_of(needed(CLIENT_GO, RELEASE) / "client-go")
    work = list(place.work("go", in_every_version=True))
    # when
    answers = ask([as_json(item) for item in work], KUBECONFIG=str(place.kubeconfig))
    # then
    assert [(item["api_version"], item["kind"]) for item in answers] == [
        (item.api_version, item.kind) for item in work
    ]
    typed = {(item["api_version"], item["kind"]) for item in answers if item["typed"]}
    assert {kind for _, kind in typed} == {item.kind for item in work}
    for item in answers:
        assert set(item["unknown"] or ()) <= set(ADDED.get(item["kind"], ())), item
