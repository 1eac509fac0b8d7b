"""Reads of objects that an explanation can do without."""

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource


async def read_optional(client: Client, resource: Resource, key: Key) -> Document | None:
    """Read an object; None when it does not exist or the user may not read it. Raises KubeError without an answer."""
    try:
        return decode(await client.get(resource, key.namespace, key.name))
    except ApiError:
        return None
