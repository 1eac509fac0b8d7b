"""ConfigMaps and Secrets that workloads follow (the option roll-on-config), for the command `plan`.

workload ──▶ read_followed() ──▶ stored objects for the copy of the cluster
changed ConfigMaps and Secrets ──▶ find_followers() ──▶ stored workloads that follow them
                               ──▶ list_content_changes() ──▶ changed fields, without the content of Secrets

This module only reads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.cli.insight.effect_forecast import FieldChange
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, encode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.resources import CONFIG_MAPS, SECRETS, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.config_content import GATE, list_followed
from pykruise.plans.kind import Kind
from pykruise.pods.template.config_content import ConfigUse
from pykruise.pods.view.secrets import read_contents

CONFIG_RESOURCES: Final[Mapping[str, Resource]] = {
    resource.kind: resource for resource in (CONFIG_MAPS, SECRETS)
}

_HIDDEN: Final = ("(hidden)", "(hidden, changed)")


def is_config(document: Mapping[str, Any]) -> bool:
    """Whether the document is a ConfigMap or Secret."""
    return document.get("apiVersion") == "v1" and document.get("kind") in CONFIG_RESOURCES


def is_following_on(settings: ManagerSettings) -> bool:
    """Whether the manager with these settings follows the content."""
    return settings.is_on(GATE)


def list_follower_kinds() -> Sequence[Kind]:
    """Kinds whose objects can follow the content."""
    return [kind for kind in list_known_kinds() if GATE in kind.own_gates]


def _list_uses(kind: Kind, document: Document) -> Sequence[ConfigUse]:
    assert kind.control is not None
    return list_followed(kind.control.objects.project(encode(document)))


async def read_followed(
    client: Client, kind: Kind, documents: Iterable[Document], *, namespace: str, settings: ManagerSettings
) -> list[Document]:
    """Return the stored objects that these versions of a workload follow, without those that the user may not read."""
    if not is_following_on(settings) or kind not in list_follower_kinds():
        return []
    keys = {(use.kind, use.name) for document in documents for use in _list_uses(kind, document)}
    result = []
    for name_of_kind, name in sorted(keys):
        try:
            raw = await client.get(CONFIG_RESOURCES[name_of_kind], namespace, name)
        except (NotFoundError, ForbiddenError):
            continue
        result.append(decode(raw))
    return result


async def find_followers(
    client: Client, changed: Sequence[Document], *, namespace: str
) -> list[tuple[Document, Sequence[Document]]]:
    """Return the stored workloads of the namespace that follow some of these objects, by kind and name, each with the
    objects that it follows.
    """
    result: list[tuple[Document, Sequence[Document]]] = []
    for kind in list_follower_kinds():
        try:
            listed = await client.list(kind.resource, namespace)
        except NotFoundError:
            continue
        about = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        for document in sorted(
            ({**about, **decode(raw)} for raw in listed.items),
            key=lambda entry: str(entry["metadata"]["name"]),
        ):
            uses = {(use.kind, use.name) for use in _list_uses(kind, document)}
            followed = [entry for entry in changed if (entry["kind"], entry["metadata"]["name"]) in uses]
            if followed:
                result.append((document, followed))
    return result


def list_content_changes(old: Document | None, new: Document) -> Iterator[FieldChange]:
    """Yield the keys whose values differ. The values of a Secret are not shown."""
    kind, name = new["kind"], new["metadata"]["name"]
    before = read_contents(kind, old) if old is not None else {}
    after = read_contents(kind, new)
    for field in ("data", "binaryData"):
        values, wanted = before.get(field) or {}, after.get(field) or {}
        for key in sorted({*values, *wanted}):
            if values.get(key) == wanted.get(key):
                continue
            shown = kind == CONFIG_MAPS.kind and field == "data"
            yield FieldChange(
                path=f"{kind} {name}: {field}[{key}]",
                old=_show(values, key, shown, _HIDDEN[0]),
                new=_show(wanted, key, shown, _HIDDEN[1]),
            )


def _show(values: Mapping[str, Any], key: str, is_shown: bool, hidden: str) -> Any:
    if key not in values:
        return None
    return values[key] if is_shown else hidden
