"""Warnings in the responses of an API server: those that `kubectl apply` prints.

Transport ──▶ WarningTransport (passes each warning to `warn`) ──▶ Client

An API server sends each warning as a value `299 - "text"` of the header Warning; several values may be in one header.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport

__all__ = ["WarningTransport", "warnings_in"]

_VALUE: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


def warnings_in(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts of all warnings in a response's headers."""
    for match in _VALUE.finditer(headers.get("warning", "")):
        yield _ESCAPED.sub(r"\1", match[1])


class WarningTransport(WrappedTransport):
    """Transport that passes each warning of a response to `warn`."""

    def __init__(self, inner: Transport, warn: Callable[[str], object]) -> None:
        super().__init__(inner)
        self._warn = warn

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`."""
        response = await super().request(request)
        for text in warnings_in(response.headers):
            self._warn(text)
        return response
