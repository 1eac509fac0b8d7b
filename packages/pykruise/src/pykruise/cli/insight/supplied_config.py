"""Objects that create missing ConfigMaps and Secrets in namespaces, and why a namespace lacks them.

missing ConfigMaps and Secrets ──objects that supply them, the namespace──▶ find_absences() ──▶ Absence of each

This module only reads. Kinds declare what their objects supply (`Insight.supplies`). Objects that the user may not read
are ignored.
"""

from collections.abc import AsyncIterator, Iterable, Mapping

from pykruise.cli.insight.config_needs import ConfigNeed
from pykruise.cli.insight.known_kinds import insight_of, list_known_kinds
from pykruise.cli.insight.optional_reads import list_optional, read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import labels_of
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES
from pykruise.plans.insight import Absence, Supply


async def find_absences(
    client: Client, namespace: str, missing: Iterable[ConfigNeed]
) -> Mapping[ConfigNeed, Absence]:
    """Return why the namespace lacks each of these ConfigMaps and Secrets that another object should create."""
    wanted = {(need.kind, need.name): need for need in missing}
    if not wanted:
        return {}
    place = await read_optional(client, NAMESPACES, Key("", namespace))
    if place is None:
        return {}
    absences: dict[ConfigNeed, Absence] = {}
    async for supply in _list_supplies(client):
        need = wanted.pop((supply.kind, supply.name), None)
        if need is not None:
            absences[need] = supply.explain_absence(namespace, labels_of(place))
    return absences


async def _list_supplies(client: Client) -> AsyncIterator[Supply]:
    for kind in list_known_kinds():
        supplies = insight_of(kind).supplies
        if supplies is None:
            continue
        for document in await list_optional(client, kind.resource):
            for supply in supplies(document):
                yield supply
