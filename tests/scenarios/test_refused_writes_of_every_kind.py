"""`explain` names each write that the API server refuses, for every kind and every refuser.

every kind × (quota, webhook, policy, right) ──the manager's writes are answered with 403 or 500──▶ explain: the code,
what refuses, the last try and the next one
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from pykruise.kube.client.transport import Request, Response, WrappedTransport
from pykruise.kube.documents import encode
from pykruise.pods.reasons import Code
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Stage
from support.situations.documents import (
    broadcastjob,
    budget,
    cloneset,
    cronjob,
    daemonset,
    distribution,
    ephemeraljob,
    listjob,
    marker,
    pulljob,
    statefulset,
    united,
)
from support.situations.world import KINDS, World, with_agents

pytestmark = pytest.mark.sandbox_only


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


REFUSALS: Final[dict[Code, tuple[int, str, str]]] = {
    Code.QUOTA: (
        403,
        "Forbidden",
        'pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1',
    ),
    Code.WEBHOOK: (500, "InternalError", 'failed calling webhook "pods.example.com": connection refused'),
    Code.POLICY: (
        403,
        "Forbidden",
        "ValidatingAdmissionPolicy 'signed' with binding 'all' denied request: images must be signed",
    ),
    Code.FORBIDDEN: (
        403,
        "Forbidden",
        'pods is forbidden: User "system:serviceaccount:kruise-system:kruise-manager" cannot create resource',
    ),
}
"""Code in the explanation → the error that the API server responds with."""


class Refusing(WrappedTransport):
    """A transport of a manager that, while `is_on`, refuses every write except statuses, events and leases."""

    def __init__(self, inner: Any, code: Code) -> None:
        super().__init__(inner)
        self.is_on = False
        self._code = code

    async def request(self, request: Request, /) -> Response:
        if (
            self.is_on
            and request.method in ("POST", "PATCH", "DELETE")
            and not _is_about_itself(request.path)
        ):
            status, reason, message = REFUSALS[self._code]
            body = {
                "kind": "Status",
                "code": status,
                "reason": reason,
                "message": message,
                "status": "Failure",
            }
            return Response(status=status, body=encode(body), headers={})
        return await super().request(request)


def _is_about_itself(path: str) -> bool:
    plain = path.partition("?")[0]
    return plain.endswith("/status") or "/events" in plain or "/leases" in plain


async def _pods(world: World) -> None:
    await world.put(cloneset("app"))
    await world.wait(30)


Put = Callable[[World], Awaitable[None]]


def put(make: Callable[..., Any], **spec: Any) -> Put:
    async def create(world: World) -> None:
        await world.put(make(**spec))

    return create


HERE = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "scenario"}}}
OBJECTS: Final[dict[str, Put]] = {
    "advancedcronjob": put(cronjob),
    "broadcastjob": put(broadcastjob),
    "cloneset": put(cloneset),
    "daemonset": put(daemonset),
    "ephemeraljob": put(ephemeraljob, app="app"),
    "imagelistpulljob": put(listjob),
    "imagepulljob": put(pulljob),
    "podprobemarker": put(marker, app="app"),
    "podunavailablebudget": put(budget, app="app"),
    "resourcedistribution": put(distribution, targets=HERE),
    "statefulset": put(statefulset),
    "uniteddeployment": put(united),
}
"""Kind → an object for which the manager must write something."""

_OTHERS: Final = {
    "containerrecreaterequest": "the node's agent carries it out; the manager only marks it",
    "nodeimage": "only the controllers of jobs write it: the refused writes are theirs",
    "nodepodprobe": "only the controller of PodProbeMarkers writes it: the refused writes are those of markers",
    "persistentpodstate": "the manager writes only its status",
    "sidecarset": "its upgrades are refused in tests of their own (test_explain_stuck_sidecars.py)",
    "workloadspread": "events report its refused writes to pods (test_explain_stuck_spreads.py)",
}
"""Kinds without a row in OBJECTS → the reason."""


def test_every_kind_is_tried_or_has_a_reason() -> None:
    assert OBJECTS.keys() | _OTHERS.keys() == set(KINDS)
    assert not OBJECTS.keys() & _OTHERS.keys()


@pytest.mark.parametrize("code", REFUSALS, ids=str)
@pytest.mark.parametrize("name", OBJECTS)
async def test_the_reason_of_a_refused_write_is_named_with_its_tries(
    stage: Stage, name: str, code: Code
) -> None:
    # given a manager whose writes are refused from now on
    world, kind = World(stage), KINDS[name]
    refusing = Refusing(stage.manager_transport(), code)
    await world.start(refusing)
    await _pods(world)
    refusing.is_on = True
    # when
    await OBJECTS[name](world)
    await asyncio.sleep(130.0)
    # then
    explanation = await world.explained(kind, "web")
    said = await world.text(explanation)
    assert explanation.cause == code, said
    assert explanation.phase.needs_a_person, said
    refused = next(wait for wait in explanation.waits if wait.code == code)
    assert refused.tried, said
    assert refused.again > refused.tried, said
    # and when it is not refused any more, it is not said any more
    refusing.is_on = False
    await asyncio.sleep(1200.0)
    now = await world.explained(kind, "web")
    assert code not in {wait.code for wait in now.waits}, await world.text(now)
