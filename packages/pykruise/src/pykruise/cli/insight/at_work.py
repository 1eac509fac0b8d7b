"""Names the pods or nodes for which a job waits, the start of their work, and the remedy if this work never ends.

waits of a job, Sight ──▶ name_those_at_work() ──▶ the waits with these names

Pure. Conditions do not contain these names: otherwise the status would be written for each pod.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Wait
from pykruise.kube.documents import Document, get_path
from pykruise.plans.insight import AtWork
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.corrections import join_remedies
from pykruise.pods.reasons import Code

MOST_NAMED: Final = 3
"""Maximum number of pods or nodes that the words of a wait name."""


def name_those_at_work(waits: Sequence[Wait], sight: Sight) -> tuple[Wait, ...]:
    """Return the waits. A wait for parallelism, a wait for active pods, and the failure of a job whose pods still run
    get the names of these pods or nodes.
    """
    insight = sight.kind.insight
    find = insight.at_work if insight is not None else None
    if find is None or not any(wait.code in _TEXTS for wait in waits):
        return tuple(waits)
    working = list(find(sight.snapshot))
    if not working:
        return tuple(waits)
    listed = sight.listed.get(POD_VIEWS)
    pods = {} if listed is None else {pod["metadata"]["name"]: pod for pod in listed.list_documents()}
    named = [_describe(item, pods.get(item.name, {})) for item in working[:MOST_NAMED]]
    more = f" and {len(working) - MOST_NAMED} more" if len(working) > MOST_NAMED else ""
    names = f"{', '.join(named)}{more}"
    return tuple(
        _with_names(wait, names, working[0].remedy) if wait.code in _TEXTS else wait for wait in waits
    )


_TEXTS: Final[Mapping[str, str]] = {
    Code.PARALLELISM: "{} by {}",
    Code.PODS_ACTIVE: "{}: {}",
    Code.JOB_FAILED: "{}; still at work: {}",
}
"""Code of a wait → its words, followed by the names of the pods or nodes at work."""


def _with_names(wait: Wait, names: str, remedy: str) -> Wait:
    words = _TEXTS[wait.code].format(wait.words, names)
    return msgspec.structs.replace(wait, words=words, remedy=join_remedies(wait.remedy, remedy))


def _describe(item: AtWork, pod: Document) -> str:
    """Return the name of the pod or node, and the time when its work began."""
    since = item.since or _find_start_time(pod, item.container)
    if not since:
        return item.name
    return (
        f"{item.name} (container {item.container} runs since {since})"
        if item.container
        else (f"{item.name} (since {since})")
    )


def _find_start_time(pod: Document, container: str) -> str:
    """Return the time at which a container was started; empty if it does not run."""
    for status in _list_statuses(pod):
        if status.get("name") == container:
            return str(get_path(status, "state", "running", "startedAt") or "")
    return ""


def _list_statuses(pod: Document) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("containerStatuses") or ()
    yield from status.get("ephemeralContainerStatuses") or ()
