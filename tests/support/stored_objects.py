"""A client that serves a few documents, with the methods that commands use."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import orjson

__all__ = ["StoredObjects"]


class _Listed(NamedTuple):
    items: list[msgspec.Raw]


class StoredObjects:
    """Serves the given objects, by plural; all other objects do not exist."""

    def __init__(self, objects: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        self._objects = {
            plural: [orjson.dumps(entry) for entry in result] for plural, result in objects.items()
        }

    async def get(self, resource: Any, namespace: str, name: str, **_: Any) -> bytes:
        """The first object of the resource. Webhook configurations are forbidden."""
        if "webhookconfigurations" in resource.plural:
            raise _refusal("ForbiddenError", 403)
        if not (result := self._objects.get(resource.plural)):
            raise _refusal("NotFoundError", 404)
        return result[0]

    async def get_path(self, path: str) -> bytes:
        """Reject every path."""
        raise _refusal("NotFoundError", 404)

    async def list(self, resource: Any, namespace: str = "", **_: Any) -> _Listed:
        """All objects of the resource."""
        return _Listed([msgspec.Raw(data) for data in self._objects.get(resource.plural, [])])

    async def read_list(self, resource: Any, namespace: str, on_page: Any, on_restart: Any, **_: Any) -> str:
        """All objects of the resource, in one page."""
        await on_page([msgspec.Raw(data) for data in self._objects.get(resource.plural, [])])
        return "9"

    @asynccontextmanager
    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """A watch without events."""
        yield _nothing()


def _refusal(name: str, code: int) -> Exception:
    """An error of the currently loaded modules, which may be instrumented."""
    from pykruise.kube import errors

    refused: Exception = getattr(errors, name)(errors.ErrorStatus(status="Failure", message=name, code=code))
    return refused


async def _nothing() -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield None
