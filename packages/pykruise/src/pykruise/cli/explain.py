"""`pykruise explain clonesets/web`: what a rollout does, and why it does not go on; `pod/web-x`: what holds a pod.

kind/name ──▶ look() (reads only) ──▶ the kind's plan ──▶ explain() ──▶ text or JSON
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.attached import ATTACHED
from pykruise.cli.insight.explaining import Explanation, explain, text
from pykruise.cli.insight.gates import given_settings, manager_settings
from pykruise.cli.insight.known import named
from pykruise.cli.insight.look import look
from pykruise.cli.insight.pods import NAMES as POD_NAMES
from pykruise.cli.insight.pods import explain_pod, look_at_pod
from pykruise.cli.insight.reach import Reach, reached
from pykruise.kube.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.manager.settings import Settings
from pykruise.plans.kind import Kind

__all__ = ["explained", "explained_pod", "run_explain"]


async def explained(
    client: Client,
    key: Key,
    *,
    now: Instant,
    kind: Kind,
    settings: Settings | None = None,
) -> Explanation:
    """Look and explain. Raises CommandError when it is not there, KubeError when it cannot be read."""
    try:
        if (attached := ATTACHED.get(kind.name)) is not None:
            return await attached.explain(client, key, now, settings)
        sight = await look(client, kind, key, now=now, settings=settings)
    except NotFoundError as error:
        raise CommandError(f"there is no {kind.resource.kind} {key}: {error}") from error
    return explain(sight, sight.plan())


async def explained_pod(
    client: Client, key: Key, *, now: Instant, settings: Settings | None = None
) -> Explanation:
    """The same of a pod: which budgets hold it."""
    try:
        return explain_pod(await look_at_pod(client, key, now=now, settings=settings))
    except NotFoundError as error:
        raise CommandError(f"there is no Pod {key}: {error}") from error


async def run_explain(
    target: str,
    *,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    watch: bool,
    output: str,
    say: Callable[[str], None],
    every_s: float = 2.0,
    feature_gates: str = "",
    reach: Reach = reached,
) -> None:
    """Print the explanation; with `watch`, again whenever it changes, until the rollout is done."""
    said, _, pod = target.partition("/")
    is_pod = said.lower() in POD_NAMES and bool(pod) and "/" not in pod
    kind, name = (None, pod) if is_pod else named(target)
    if output not in ("text", "json"):
        raise CommandError(f"-o {output}: there is text and json")
    given = given_settings(feature_gates) if feature_gates else None
    async with reach(kubeconfig, context) as (client, default_namespace):
        settings = given or await manager_settings(client, time.time)
        is_namespaced = kind is None or kind.resource.namespaced
        key = Key((namespace or default_namespace) if is_namespaced else "", name)
        shown: Explanation | None = None
        while True:
            now = time.time()
            if kind is None:
                found = await explained_pod(client, key, now=now, settings=settings)
            else:
                found = await explained(client, key, now=now, kind=kind, settings=settings)
            if found != shown:
                say(_rendered(found, output, now) if shown is None else f"\n{_rendered(found, output, now)}")
                shown = found
            if not watch or found.verdict == "done":
                return
            await asyncio.sleep(every_s)


def _rendered(found: Explanation, output: str, now: Instant) -> str:
    if output == "json":
        return json.dumps({"cause": found.cause, **msgspec.to_builtins(found)}, indent=2)
    return text(found, now=now).rstrip("\n")
