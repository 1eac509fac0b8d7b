"""Preview of a change: `pykruise plan --set …` in the page, with the chart of `simulate`. Nothing is written.

kind, name, changes ──▶ apply_sets() ──dry run as the user──▶ forecast_and_play() ──▶ lines, SVG, command
"""

import base64
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.charts import draw_svg_chart, draw_terminal_chart
from pykruise.cli.insight.forecasting import forecast_and_play
from pykruise.cli.insight.simulating import Played
from pykruise.cli.plan import apply_sets, describe_forecast, plan_document, read_live_document
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.resources import Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import WorkloadInsight
from pykruise.plans.kind import Kind

MOST_LINES: Final = 400


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the what-if box."""

    lines: tuple[str, ...]
    """Lines that `pykruise plan` prints."""
    command: str
    """Command `pykruise plan …` to copy."""
    chart: str = ""
    """A data: URL of an SVG; empty if there is no chart."""
    chart_text: tuple[str, ...] = ()
    """The chart in block characters, for people who cannot see the SVG."""


async def answer_what_if(
    client: Client,
    kind: Kind,
    namespace: str,
    name: str,
    sets: Sequence[str],
    *,
    now: Instant,
    settings: ManagerSettings,
) -> WhatIfAnswer:
    """Answer a what-if question. `sets` are values of `plan --set`. `client` has the user's permissions.

    Raises CommandError, KubeError.
    """
    document = apply_sets(await read_live_document(client, namespace, kind, name), sets)
    played: Played | None = None
    if isinstance(kind.insight, WorkloadInsight):
        forecast, played = await forecast_and_play(
            client, document, namespace=namespace, now=now, settings=settings
        )
        lines = describe_forecast(forecast)
    else:
        outlook = await plan_document(client, document, namespace=namespace, now=now, settings=settings)
        lines = describe_forecast(outlook)
    has_chart = played is not None and bool(played.samples)
    return WhatIfAnswer(
        lines=tuple(lines[:MOST_LINES]),
        command=plan_command(kind.resource, namespace, name, sets),
        chart=_build_data_url(draw_svg_chart(f"{namespace}/{name}", played)) if has_chart and played else "",
        chart_text=tuple(draw_terminal_chart(played)) if has_chart and played else (),
    )


def plan_command(resource: Resource, namespace: str, name: str, sets: Sequence[str]) -> str:
    """Return the same question as a command line."""
    words = [f"{resource}/{name}", *(["-n", namespace] if namespace else [])]
    words += [word for text in sets for word in ("--set", text)]
    return f"kubectl kruise plan {shlex.join(words)}"


def _build_data_url(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def sets_of(asked: Mapping[str, Any]) -> list[str]:
    """Convert `{"replicas": "5"}` to values of `--set`. An empty value changes nothing."""
    return [f"{name}={value}" for name, value in asked.items() if isinstance(value, str) and value]
