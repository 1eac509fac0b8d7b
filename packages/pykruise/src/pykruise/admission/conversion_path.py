"""The path of a webhook server for conversions. Long conversions wait in a queue and run outside the event loop."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from pykruise.admission import conversion
from pykruise.kube.control.offload import Aside
from pykruise.kube.control.quota import Quota
from pykruise.kube.webhooks.server import MIB, LongBodies, PostPath

_log = logging.getLogger(__name__)

CONVERSION_BODY: Final = 4 * MIB
"""Maximum size of a request body. An API server sends each stored object in a request of its own; etcd's default limit
is 1.5 MiB.
"""

LONG_CONVERSION: Final = 64 * 1024
"""Requests of at least this number of bytes are long: they run outside the event loop, one after the other."""

LONG_AT_ONCE: Final = 8
"""Maximum number of long conversions that wait. At most a quarter of them may be from one address."""

Converter = Callable[[bytes], Awaitable[bytes]]
"""Converts the body of a ConversionReview to the response. Raises OSError if there is no response."""


def build_conversion_path(path: str, *, aside: Converter | None = None) -> Mapping[str, PostPath]:
    """Return the path of a server for conversions. `aside` runs long conversions; if it is None, a thread runs them."""
    convert = aside or partial(Aside().run, partial(conversion.answer))

    async def post(_: str, body: bytes, timeout_s: float) -> bytes:
        if len(body) < LONG_CONVERSION:
            return conversion.answer(body)
        try:
            return await convert(body)
        except OSError as error:
            _log.error("a conversion failed: %s", error)
            return conversion.build_failure(body, f"the conversion failed; try again: {error}")

    long = LongBodies(LONG_CONVERSION, Quota(LONG_AT_ONCE, most_of_one=LONG_AT_ONCE // 4))
    return {path: PostPath(post, body=CONVERSION_BODY, long=long, is_open=True)}
