"""The error for an object that does not exist: it suggests the object with the nearest name.

NotFoundError, key ──lists names of the kind──▶ make_missing_error() ──▶ MissingError
"""

from pykruise.cli.errors import MissingError
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES, Resource
from pykruise.kube.values.near_misses import format_hint


async def make_missing_error(
    client: Client, resource: Resource, key: Key, error: NotFoundError
) -> MissingError:
    """Return an error such as `there is no CloneSet default/wbe; did you mean web?`; it also reports a missing
    namespace.

    Lists that the user may not read are ignored.
    """
    what = f"there is no {resource.kind} {key}"
    if key.namespace and not await _is_there(client, key.namespace):
        spaces = await _list_names(client, NAMESPACES, "")
        return MissingError(
            f"{what}: there is no namespace {key.namespace}{format_hint(key.namespace, spaces)}"
        )
    names = await _list_names(client, resource, key.namespace)
    return MissingError(f"{what}{format_hint(key.name, names, otherwise=f': {error}')}")


async def _is_there(client: Client, namespace: str) -> bool:
    try:
        await client.get(NAMESPACES, "", namespace)
    except NotFoundError:
        return False
    except KubeError:
        pass
    return True


async def _list_names(client: Client, resource: Resource, namespace: str) -> list[str]:
    try:
        listed = await client.list(resource, namespace, metadata_only=True)
    except KubeError:
        return []
    return [metadata_of(raw).name for raw in listed.items]
