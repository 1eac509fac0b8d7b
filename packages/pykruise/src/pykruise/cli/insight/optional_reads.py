"""Reads objects that an explanation does not require, and parses the names of pods in waits."""

from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import last_time_of
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules.names import is_dns1123_label, is_dns1123_subdomain
from pykruise.kube.resources import EVENTS, Resource


async def read_optional(client: Client, resource: Resource, key: Key) -> Document | None:
    """Read an object; None when it does not exist or the user may not read it. Raises KubeError when the API server
    does not respond.
    """
    try:
        return decode(await client.get(resource, key.namespace, key.name))
    except ApiError:
        return None


def find_pod_key(name: str, namespace: str) -> Key | None:
    """Return the key of a pod that a wait names, with its namespace or without it. None if no pod can have this name,
    and the wait is about something else, such as an image of a NodeImage.
    """
    given, _, short = name.rpartition("/")
    key = Key(given or namespace, short)
    problems = (*is_dns1123_label(key.namespace), *is_dns1123_subdomain(key.name))
    return None if problems else key


async def list_optional(
    client: Client, resource: Resource, namespace: str = "", *, field_selector: str = ""
) -> list[Document]:
    """List the objects of a namespace, or of all if it is empty; none if the user may not list them or the API server
    does not serve them. Raises KubeError when the API server does not respond.
    """
    try:
        listed = await client.list(resource, namespace, field_selector=field_selector)
    except ApiError:
        return []
    return list(map(decode, listed.items))


async def list_pod_events(client: Client, namespace: str, reason: str) -> list[Document]:
    """List the events about pods with this reason, the latest last; none if they cannot be read."""
    selector = f"involvedObject.kind=Pod,reason={reason}"
    return sorted(await list_optional(client, EVENTS, namespace, field_selector=selector), key=last_time_of)
