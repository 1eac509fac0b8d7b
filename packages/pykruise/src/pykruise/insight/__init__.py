"""The commands `explain` and `plan` as Python functions. They return the values that the commands print.

await explain("clonesets/web", namespace="shop") ──▶ Explanation
await plan("clonesets/web", "replicas=5")        ──▶ Forecast (for a kind that owns no pods: Outlook)

Both functions only read from the cluster. They raise KubeError (kube/errors.py), CommandError for an invalid target,
and MissingError, its subclass, for a target that does not exist. All returned values are frozen.
`msgspec.to_builtins()` converts them to the same JSON types that `-o json` prints.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pykruise.cli.errors import CommandError, MissingError
from pykruise.cli.explain import read_and_explain, read_and_explain_pod
from pykruise.cli.insight.effect_forecast import Outlook
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.forecasting import Forecast
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.insight.known_kinds import parse_target
from pykruise.cli.insight.pods import NAMES
from pykruise.cli.insight.traced_requests import connect_traced
from pykruise.cli.plan import apply_sets, check_namespaces, plan_document, read_live_document
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key

__all__ = ["CommandError", "Explanation", "Forecast", "MissingError", "Outlook", "explain", "plan"]


async def explain(
    target: str,
    *,
    namespace: str = "",
    client: Client | None = None,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    now: Instant | None = None,
) -> Explanation:
    """Explain why an object does not match its spec yet. `target` is, for example, `clonesets/web`, or `pod/web-x` to
    explain why a pod does not run.

    `client`: the connection to use; if it is None, `kubeconfig` and `context` select the cluster. `namespace`: if it is
    empty, the namespace of the context is used, or `default`. `now`: the time in seconds since 1970; if it is None, the
    current time. Raises MissingError for an object that does not exist, CommandError for a target that is not
    kind/name, and KubeError if the cluster does not respond.
    """
    async with _connect(client, kubeconfig, context) as (asking, default):
        at = time.time() if now is None else now
        settings = await read_manager_settings(asking, lambda: at)
        said, _, name = target.partition("/")
        place = namespace or default
        if said.lower() in NAMES and name:
            return await read_and_explain_pod(asking, Key(place, name), now=at, settings=settings)
        kind, name = parse_target(target)
        key = Key(place if kind.resource.namespaced else "", name)
        return await read_and_explain(asking, key, now=at, kind=kind, settings=settings)


async def plan(
    target: str | Mapping[str, Any],
    *sets: str,
    namespace: str = "",
    client: Client | None = None,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    now: Instant | None = None,
) -> Forecast | Outlook:
    """Forecast a change. `target`: an object as a user would apply it, or the name of an existing object, such as
    `clonesets/web`. `sets`: changes to this object, in the syntax of `--set` (`image=main=shop:2`).

    `namespace`, `client`, `kubeconfig`, `context`, `now` and the errors are the same as in `explain`. Also raises
    CommandError if `namespace` is not the namespace of the given object.
    """
    async with _connect(client, kubeconfig, context) as (asking, default):
        at = time.time() if now is None else now
        document: Document
        if isinstance(target, str):
            kind, name = parse_target(target)
            document = await read_live_document(asking, namespace or default, kind, name)
        else:
            document = dict(target)
            check_namespaces([document], namespace)
        place = document["metadata"].get("namespace") or namespace or default
        settings = await read_manager_settings(asking, lambda: at)
        return await plan_document(
            asking, apply_sets(document, sets), namespace=place, now=at, settings=settings
        )


@asynccontextmanager
async def _connect(
    client: Client | None, kubeconfig: str | Path | None, context: str | None
) -> AsyncIterator[tuple[Client, str]]:
    if client is not None:
        yield client, "default"
        return
    async with connect_traced(Path(kubeconfig) if kubeconfig else None, context) as result:
        yield result
