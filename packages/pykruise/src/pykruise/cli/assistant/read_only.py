"""A transport that rejects writes, so that no tool of an assistant can change a cluster.

Request ──▶ is_read() ──▶ the inner transport | ReadOnlyError
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from pykruise.cli.errors import CommandError
from pykruise.kube.client.transport import Request, Response, WrappedTransport

_REVIEWS: Final = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
"""Resources for which a POST only returns the caller's own permissions and stores nothing."""


class ReadOnlyError(CommandError):
    """A write that was not sent."""


class ReadOnlyTransport(WrappedTransport):
    """Sends reads, dry runs and reviews of the caller's own permissions; raises ReadOnlyError for everything else."""

    async def request(self, request: Request, /) -> Response:
        _check(request)
        return await super().request(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        _check(request)
        return super().stream(request)


def _check(request: Request) -> None:
    if not is_read(request):
        raise ReadOnlyError(f"{request.method} {request.path} was not sent: this server only reads")


def is_read(request: Request) -> bool:
    """Whether the API server stores nothing for the request.

    Kubernetes' rules: GET changes nothing. A write with `dryRun=All` is not stored. A review of the caller's own
    permissions is not stored.
    """
    if request.method in ("GET", "HEAD"):
        return True
    return request.query.get("dryRun") == "All" or (
        request.method == "POST" and request.path.rpartition("/")[2] in _REVIEWS
    )
