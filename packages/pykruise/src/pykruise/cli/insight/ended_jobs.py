"""Says that a job, or some of its pods, ran an older spec than the stored one: the change has no effect on them.

Sight of a job ──▶ explain_older_spec() ──▶ a Wait, or None

Pure. The stored pods show what ran. For jobs whose pods do not show it, managedFields show that the spec was changed
after the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Wait
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_command
from pykruise.plans.insight import JobInsight
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.jobs.ended_changes import NAMES_STAY, RUN_AGAIN, STILL_USED
from pykruise.pods.reasons import Code
from pykruise.pods.view.ephemeral import JOB_ENV

_MOST_NAMED: Final = 6
"""Maximum number of pods that a command names."""

_OWN: Final = "containers"
"""Field of the containers of pods that a job owns."""

_COMPARED: Final = ("image", "command", "args")
"""Fields of a container that webhooks rarely change. So if a pod and the template differ in these fields, the template
was changed.
"""


def explain_older_spec(sight: Sight) -> Wait | None:
    """Return the wait of a job whose spec was changed after its pods ran, or after its end; None if it was not, or if
    nothing shows it.
    """
    # In the first generation the spec is the one that ran, although webhooks perhaps changed the pods.
    has_changed = (get_path(sight.document, "metadata", "generation") or 1) > 1
    if not has_changed:
        return None
    if not get_path(sight.document, "status", "completionTime"):
        return _explain_older_pods(sight)
    return _explain_older_template(sight) or _explain_late_change(sight)


def _explain_older_template(sight: Sight) -> Wait | None:
    """Return the wait if the containers of all pods of the job differ from its template."""
    insight = sight.kind.insight
    path = insight.containers if insight is not None else ()
    if not path:
        return None
    wanted = _index_containers_by_name(sight, path)
    differences = [_find_difference(ran, wanted) for _, ran in _list_ran(sight, path[-1])]
    if not differences or not all(differences):
        return None
    words = f"the job has ended, and its pods ran an older template: {differences[0]}"
    return Wait(code=Code.JOB_OVER, words=words, remedy=_run_again(path))


def _index_containers_by_name(sight: Sight, path: Sequence[str]) -> dict[Any, Document]:
    """Return the containers of the spec by name, without values that are no containers."""
    stored = get_path(sight.document, *path)
    containers = stored if isinstance(stored, list) else ()
    return {str(item.get("name")): item for item in containers if isinstance(item, dict)}


def _explain_older_pods(sight: Sight) -> Wait | None:
    """Return the wait of a BroadcastJob that has not ended, if some of its pods ran an older template: such pods are
    not replaced.
    """
    insight = sight.kind.insight
    if not isinstance(insight, JobInsight):
        return None
    wanted = _index_containers_by_name(sight, insight.containers)
    differences = {
        name: _find_difference(ran, wanted) for name, ran in _list_ran(sight, insight.containers[-1])
    }
    older = {name: difference for name, difference in differences.items() if difference}
    if not older:
        return None
    are_all = len(older) == len(differences)
    cause = f"the pod ran an older template{', or a webhook changed it' if are_all else ''}"
    first = next(iter(older.values()))
    words = f"{cause} ({first}): a changed template has an effect only on nodes that get a pod later"
    meta = sight.document["metadata"]
    delete = f"kubectl delete pod -n {meta['namespace']}"
    command = (
        f"{delete} -l {insight.pod_label}={meta['name']}"
        if are_all and insight.pod_label
        else format_command(delete, list(older), _MOST_NAMED)
    )
    remedy = f"delete these pods ({command}): their nodes then run the new template"
    return Wait(code=Code.NO_EFFECT, words=words, pods=tuple(older), remedy=remedy)


def _run_again(path: Sequence[str]) -> str:
    return RUN_AGAIN if not path or path[-1] == _OWN else NAMES_STAY


def _explain_late_change(sight: Sight) -> Wait | None:
    """Return the wait if a field of the spec that has no more effect was written after the end of the job."""
    ended = str(get_path(sight.document, "status", "completionTime"))
    late = [
        entry
        for entry in sight.document["metadata"].get("managedFields") or ()
        if not entry.get("subresource")
        and str(entry.get("time") or "") > ended
        and _has_written_unused_fields(entry)
    ]
    if not late:
        return None
    latest = max(late, key=lambda entry: str(entry["time"]))
    words = (
        f"{latest.get('manager') or 'a client'} changed the spec at {latest['time']}, after the job had ended: a job"
        " that has ended does not run again"
    )
    insight = sight.kind.insight
    return Wait(
        code=Code.JOB_OVER, words=words, remedy=_run_again(() if insight is None else insight.containers)
    )


def _has_written_unused_fields(entry: Mapping[str, Any]) -> bool:
    """Whether a manager writes a field of the spec that has no effect after the end of the job."""
    fields = {name.removeprefix("f:") for name in get_path(entry, "fieldsV1", "f:spec", default={})}
    return bool(fields - STILL_USED - {"."})


def _list_ran(sight: Sight, field: str) -> Iterator[tuple[str, list[Document]]]:
    """Yield the name of each pod of the job, and the job's containers in it. `field`: `containers` for pods that the
    job owns, otherwise `ephemeralContainers`, which name their job in a variable.
    """
    if field == _OWN:
        yield from ((name, pod["spec"]["containers"]) for name, pod in sight.pods.items())
        return
    listed = sight.listed.get(POD_VIEWS)
    for pod in () if listed is None else listed.list_documents():
        mark = {"name": JOB_ENV, "value": sight.uid}
        own = [item for item in pod["spec"].get(field) or () if mark in (item.get("env") or ())]
        if own:
            yield pod["metadata"]["name"], own


def _find_difference(ran: list[Document], wanted: Mapping[Any, Document]) -> str:
    """Return the first difference in words; empty if there is none."""
    for container in ran:
        new = wanted.get(container.get("name"))
        if new is None:
            continue
        for field in _COMPARED:
            if new.get(field) != container.get(field):
                name, ran_with = container["name"], container.get(field)
                is_image = field == "image"
                return f"container {name} ran {f'image {ran_with}' if is_image else f'with another {field}'}"
    return ""
