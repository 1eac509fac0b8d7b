"""Check for requests that a manager delays because of a response with Retry-After (429, 503)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.resources import PODS
from pykruise.manager.doctor.findings import Finding, make_fine, make_unknown, make_warning
from pykruise.manager.doctor.live import Live

HELD_BACK: Final = "pykruise_api_held_back_seconds"
"""Name of the gauge: seconds until requests continue, by scope."""
_SELECTOR: Final = "control-plane=controller-manager"
_METRICS_PORT: Final = 8080
_SAMPLE: Final = re.compile(HELD_BACK + r'\{scope="([^"]+)"\} (\S+)')
_SHOWN: Final = 3


async def check_holds(live: Live) -> Sequence[Finding]:
    """Check that no manager delays requests."""
    findings: list[Finding] = []
    pods = await live.list(PODS, live.namespace, label_selector=_SELECTOR)
    for name in sorted(str(pod["metadata"]["name"]) for pod in pods):
        path = PODS.format_path(live.namespace, f"{name}:{_METRICS_PORT}", "proxy") + "/metrics"
        try:
            text = (await live.client.get_path(path, timeout_s=5.0)).decode("utf-8", "replace")
        except NotFoundError:
            continue  # deleted meanwhile
        except KubeError as error:
            findings.append(make_unknown("requests", f"metrics of {name} cannot be read: {error}"))
            continue
        if held := sorted(holds_of(text), key=lambda hold: -hold[1]):
            what = ", ".join(f"{scope} for {left_s:.0f} s" for scope, left_s in held[:_SHOWN])
            more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
            fix = "find out what responds with 429 or 503: an admission webhook of that resource, or a load balancer"
            findings.append(make_warning("requests", f"{name} delays requests: {what}{more}", fix))
    return findings or [make_fine("requests", "no manager delays its requests")]


def holds_of(text: str) -> Iterator[tuple[str, float]]:
    """Yield the scopes with delayed requests, and the remaining seconds. Pure."""
    for scope, seconds in _SAMPLE.findall(text):
        yield scope, float(seconds)
