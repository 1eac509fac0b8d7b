"""Commands `rollout history, undo, pause, resume, restart, approve`: their changes of an object, and their output.

(object, arguments) ──▶ restart_template(), undo_patch(), … (pure) ──▶ changing.py ──▶ printing.py
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from pykruise.cli.errors import CommandError
from pykruise.cli.kubectl.changing import change, patch
from pykruise.cli.kubectl.errors import KubectlError, ResourceError
from pykruise.cli.kubectl.kinds import ROLLOUTS, current_step_of, group_of, list_step_marks, templates_of
from pykruise.cli.kubectl.printing import Printer, printer_of
from pykruise.cli.kubectl.resources import Error, Info, SelectedObjects, find, get
from pykruise.cli.kubectl.revisions import (
    NUMBER,
    Revision,
    find_revision,
    format_history_table,
    list_revision_differences,
    read_revisions,
    read_templates,
)
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.cli.kubectl.template_text import describe_template
from pykruise.kinds import shown_of
from pykruise.kube.clock import format_time
from pykruise.kube.documents import LAST_APPLIED, Document, deep_copy, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.shown import Shown

MANAGER: Final = "kubectl-rollout"
RESTARTED_AT: Final = "RESTARTED_AT"


async def run_for_each(selection: SelectedObjects, do: Callable[[Info], Awaitable[None]]) -> list[Error]:
    """Call `do` for each object, also after an error. Return all errors, first those of the selection."""
    errors = list(selection.errors)
    for info in selection.infos:
        try:
            await do(info)
        except (KubeError, CommandError) as error:
            errors.append(error)
    return errors


# ── pause and resume ─────────────────────────────────────────────────────────


def put(document: Document, path: tuple[str, ...], value: Any) -> None:
    """Set a field. Objects on its path are created if they are missing. A value of None removes the field."""
    for name in path[:-1]:
        if not isinstance(document.get(name), dict):
            document[name] = {}
        document = document[name]
    if value is None:
        document.pop(path[-1], None)
    else:
        document[path[-1]] = value


def set_paused(document: Document, *, label: str, is_paused: bool) -> None:
    """Pause or resume a rollout. Raises ResourceError when the kind cannot be paused, or the rollout already is in
    this state.
    """
    shown = shown_of(document)
    field = None if shown is None else shown.fields.get("paused")
    if shown is None or field is None:
        raise ResourceError(f"{label} {'pausing' if is_paused else 'resuming'} is not supported")
    path = field.find_path(document)
    if bool(get_path(document, *path)) == is_paused:
        raise ResourceError(f"{label} is {'already paused' if is_paused else 'not paused'}")
    put(document, path, True if is_paused else shown.verbs.resumed)


async def pause(session: Session) -> list[Error]:
    """`rollout pause RESOURCE`."""
    return await _set_paused(session, is_paused=True)


async def resume(session: Session) -> list[Error]:
    """`rollout resume RESOURCE`."""
    return await _set_paused(session, is_paused=False)


async def _set_paused(session: Session, *, is_paused: bool) -> list[Error]:
    return await _change_each(
        session,
        "paused" if is_paused else "resumed",
        lambda label, document: set_paused(document, label=label, is_paused=is_paused),
    )


async def _change_each(
    session: Session, operation: str, mutate: Callable[[str, Document], None]
) -> list[Error]:
    """Change each selected object and print it. `mutate` gets the object's label and a copy of its document."""
    selection = await find(session, session.call.arguments)
    show = _Show(session, operation)

    async def do(info: Info) -> None:
        changed = await change(session, info, lambda document: mutate(info.label, document), manager=MANAGER)
        show(changed or info)

    return await run_for_each(selection, do)


class _Show:
    """Prints objects after an operation. The printer is created for the first object, as in kubectl."""

    def __init__(self, session: Session, operation: str) -> None:
        self._session = session
        self._operation = operation
        self._printer: Printer | None = None

    def __call__(self, info: Info, operation: str = "") -> None:
        if self._printer is None:
            dry_run = dry_run_of(self._session.call, lambda _: None)
            self._printer = printer_of(self._session.call, dry_run=dry_run)
        self._session.write(self._printer.format_object(info, operation or self._operation))


# ── restart ──────────────────────────────────────────────────────────────────


def restart_template(document: Document, *, label: str, at: str) -> None:
    """Change the template so that every pod is replaced. Raises ResourceError."""
    shown = shown_of(document)
    if shown is None or not shown.verbs.restart:
        raise ResourceError(f"{label} restarting is not supported")
    if shown.verbs.restart == "annotation":
        if get_path(document, "spec", "paused"):
            raise ResourceError(f"{label} can't restart paused deployment (run rollout resume first)")
        put(
            document, ("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"), at
        )
        return
    for template in templates_of(document):
        for container in template["spec"]["containers"]:
            variables = [
                variable for variable in container.get("env") or () if variable.get("name") != RESTARTED_AT
            ]
            place = next(
                (
                    n
                    for n, variable in enumerate(container.get("env") or ())
                    if variable.get("name") == RESTARTED_AT
                ),
                len(variables),
            )
            variables.insert(place, {"name": RESTARTED_AT, "value": at})
            container["env"] = variables


async def restart(session: Session) -> list[Error]:
    """`rollout restart RESOURCE`."""
    at = format_time(session.now)
    return await _change_each(
        session, "restarted", lambda label, document: restart_template(document, label=label, at=at)
    )


# ── approve ──────────────────────────────────────────────────────────────────


def approve_step(document: Document, *, label: str, marks: Sequence[Any]) -> None:
    """Approve the current step of a Rollout. Raises ResourceError when the step cannot be approved, or when it is not
    the step with these `marks`.
    """
    if (group_of(document), document.get("kind")) != (ROLLOUTS, "Rollout"):
        raise ResourceError(f"{label} approving is not supported")
    step = current_step_of(document)
    if not step:
        raise ResourceError(f"{label} no need to approve: it is in no step")
    state = step.get("currentStepState", "")
    if state != "StepPaused":
        raise ResourceError(
            f"{label} does not allow to approve, because current canary state is not 'StepPaused' but {state!r}"
        )
    if list_step_marks(document) != marks:
        raise ResourceError(f"{label} has reached another step since it was read: check this step first")
    assert isinstance(step, dict)
    step["currentStepState"] = "StepReady"


async def approve(session: Session) -> list[Error]:
    """`rollout approve RESOURCE`."""
    selection = await find(session, session.call.arguments)
    show = _Show(session, "approved")

    async def do(info: Info) -> None:
        marks = list_step_marks(info.document)
        changed = await change(
            session,
            info,
            lambda document: approve_step(document, label=info.label, marks=marks),
            manager=MANAGER,
            subresource="status",
        )
        show(changed or info)

    return await run_for_each(selection, do)


# ── history ──────────────────────────────────────────────────────────────────


async def show_history(session: Session) -> list[Error]:
    """`rollout history (TYPE NAME | TYPE/NAME) [--revision N] [--diff]`."""
    call = session.call
    number = call.number("revision")
    if number < 0:
        raise KubectlError(f"revision must be a positive integer: {number}")
    selection = await find(session, call.arguments)
    show = _Show(session, "")

    async def do(info: Info) -> None:
        revisions = await read_revisions(session, info)
        chosen = find_revision(revisions, number)
        if number and chosen is None:
            raise KubectlError("unable to find the specified revision")
        if call.text("output"):
            for revision in [chosen] if chosen else revisions:
                show(_build_shown_revision(info, revision))
            return
        if chosen is None:
            body = format_history_table(revisions)
            show(info, f"\n{body}{_format_revision_changes(revisions) if call.is_on('diff') else ''}")
            return
        shown = shown_of(info.document)
        assert shown is not None
        text = "".join(describe_template(template) for template in read_templates(chosen, shown))
        if call.is_on("diff"):
            text += _format_revision_changes([item for item in revisions if item.number <= number][-2:])
        show(info, f"with revision #{number}\n{text}")

    return await run_for_each(selection, do)


def _build_shown_revision(info: Info, revision: Revision) -> Info:
    """Object for `-o`: the ReplicaSet, or for other kinds the object with that revision's spec."""
    if revision.info.resource.kind == "ReplicaSet":
        return revision.info
    return info.replace_document({**info.document, "spec": {**info.document["spec"], **revision.content}})


def _format_revision_changes(revisions: list[Revision]) -> str:
    """Changes of each revision compared with the previous one, as text."""
    said = ""
    for old, new in itertools.pairwise(revisions):
        lines = list_revision_differences(old, new)
        said += f"\n{old.number} → {new.number}\n" + "".join(
            f"  {line}\n" for line in lines or ["no difference"]
        )
    return said


# ── undo ─────────────────────────────────────────────────────────────────────

_KEPT_ANNOTATIONS: Final = frozenset(
    {
        LAST_APPLIED,
        NUMBER,
        "deployment.kubernetes.io/revision-history",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deprecated.deployment.rollback.to",
    }
)
"""Annotations of a Deployment that a rollback does not replace by the ReplicaSet's."""

_PREVIOUSLY_APPLIED: Final = (
    "resource {plural}/{name} was previously managed with 'kubectl apply'. Rolling back will not update the"
    " kubectl.kubernetes.io/last-applied-configuration annotation, which may cause unexpected behavior on future"
    " 'kubectl apply' operations. Consider using 'kubectl apply' with your previous configuration file instead."
)


def target_of(document: Document, revisions: list[Revision], number: int) -> Revision:
    """The revision to roll back to. Raises KubectlError."""
    shown = shown_of(document)
    is_deployment = shown is not None and shown.verbs.history == "replicasets"
    if number:
        revision = find_revision(revisions, number) if number > 0 else None
        if revision is None:
            raise KubectlError(f"unable to find specified revision {number} in history")
        return revision
    if is_deployment and _is_in_canary(document) and revisions:
        newest = revisions[-1]
        is_same = _copy_template_without_hash(newest.content) == _copy_template_without_hash(document["spec"])
        return revisions[-2] if is_same and len(revisions) > 1 else newest
    if len(revisions) < 2:
        name = quote_text(document["metadata"]["name"])
        raise KubectlError(
            f"no rollout history found for deployment {name}"
            if is_deployment
            else "no last revision to roll back to"
        )
    return revisions[-2]


def _is_in_canary(document: Document) -> bool:
    """Whether a Rollout paused the Deployment, so that no ReplicaSet has its new template yet."""
    annotations = document["metadata"].get("annotations") or {}
    return bool(
        get_path(document, "spec", "paused")
        and f"{ROLLOUTS}/in-progressing" in annotations
        and f"{ROLLOUTS}/deployment-strategy" not in annotations
    )


def _copy_template_without_hash(spec: Mapping[str, Any]) -> Document:
    """The pod template without the hash label of a ReplicaSet."""
    template: Document = deep_copy(spec["template"])
    ((template.get("metadata") or {}).get("labels") or {}).pop("pod-template-hash", None)
    return template


def undo_patch(document: Document, target: Revision, shown: Shown) -> list[dict[str, Any]]:
    """JSON patch that restores a revision completely; empty if the object already has this revision."""
    if shown.verbs.history == "replicasets":
        template = _copy_template_without_hash(target.content)
        if template == _copy_template_without_hash(document["spec"]):
            return []
        return [
            {"op": "replace", "path": "/spec/template", "value": template},
            {
                "op": "replace" if document["metadata"].get("annotations") else "add",
                "path": "/metadata/annotations",
                "value": _merge_restored_annotations(document, target),
            },
        ]
    if shown.verbs.restored != "spec.template":
        return [
            {"op": "add", "path": f"/spec/{field}", "value": value}
            if value is not None
            else {"op": "remove", "path": f"/spec/{field}"}
            for field, value in target.content.items()
            if value != document["spec"].get(field)
        ]
    from pykruise.pods.workload.revisions import encode_meaning

    if encode_meaning(target.content.get("template") or {}) == encode_meaning(document["spec"]["template"]):
        return []
    return [{"op": "replace", "path": "/spec/template", "value": target.content["template"]}]


def _merge_restored_annotations(document: Document, target: Revision) -> Document:
    own = document["metadata"].get("annotations") or {}
    theirs = target.info.document["metadata"].get("annotations") or {}

    def is_kept(name: str) -> bool:
        return name in _KEPT_ANNOTATIONS or name.startswith(f"{ROLLOUTS}/")

    kept = {name: value for name, value in own.items() if is_kept(name)}
    return {**kept, **{name: value for name, value in theirs.items() if not is_kept(name)}}


async def undo(session: Session) -> list[Error]:
    """`rollout undo (TYPE NAME | TYPE/NAME) [--to-revision N]`."""
    call = session.call
    selection = await find(session, call.arguments)
    if call.is_on("fast"):
        return await run_for_each(selection, lambda info: _return_fast(session, info))
    show, dry_run = _Show(session, "rolled back"), dry_run_of(call, session.warn)
    done: set[tuple[str, str, str]] = set()

    async def do(given: Info) -> None:
        info = await workload_of(session, given)
        key = (str(info.resource), info.namespace, info.name)
        if key in done:
            return
        done.add(key)
        if LAST_APPLIED in (info.document["metadata"].get("annotations") or {}):
            session.warn(_PREVIOUSLY_APPLIED.format(plural=info.resource.plural, name=info.name))
        shown = shown_of(info.document)
        if shown is None or not shown.verbs.history:
            kind = info.document["kind"]
            raise KubectlError(
                f'error retrieving rollbacker for "{kind}", no visitor method exists for'
                f" {{{group_of(info.document)} {kind}}}"
            )
        revisions = await read_revisions(session, info)
        target = target_of(info.document, revisions, call.number("to-revision"))
        if dry_run == "client":
            text = "".join(describe_template(template) for template in read_templates(target, shown))
            show(info, text if shown.verbs.history == "replicasets" else f"will roll back to {text}")
            return
        operations = undo_patch(info.document, target, shown)
        if not operations:
            show(info, f"skipped rollback (current template already matches revision {target.number})")
            return
        show(await patch(session, info, operations, manager=MANAGER, patch_type=PatchType.JSON))

    return await run_for_each(selection, do)


async def workload_of(session: Session, info: Info) -> Info:
    """The workload of a Rollout; any other object is returned unchanged."""
    if group_of(info.document) != ROLLOUTS or info.document.get("kind") != "Rollout":
        return info
    spec = info.document.get("spec") or {}
    ref = spec.get("workloadRef") or (spec.get("objectRef") or {}).get("workloadRef") or {}
    served = (await session.read_mapper()).find_in_group(
        str(ref.get("apiVersion", "")).rpartition("/")[0], str(ref.get("kind"))
    )
    if served is None:
        raise KubectlError(f"{info.label} refers to {ref.get('kind')}, which the API server does not serve")
    return await get(session, served, str(ref.get("name")), info.namespace)


def find_fast_step(document: Document) -> tuple[str, int]:
    """Field of a Rollout's status, and number of the step to which `--fast` returns: the largest earlier step without
    traffic.

    Raises KubectlError.
    """
    if not str(document.get("apiVersion")).endswith("/v1beta1") or document.get("kind") != "Rollout":
        raise KubectlError("--fast is only supported for Rollouts of v1beta1")
    status, strategy = document.get("status") or {}, document["spec"].get("strategy") or {}
    part = next((literal for literal in ("blueGreen", "canary") if strategy.get(literal)), "canary")
    steps, field = (strategy.get(part) or {}).get("steps") or [], f"{part}Status"
    if status.get("phase") != "Progressing" or not status.get(field):
        raise KubectlError("rollout is not in progressing")
    current = status[field].get("currentStepIndex", 0)
    if current > len(steps):
        raise KubectlError(
            f"current step {current} is beyond the {format_count(len(steps), 'step')} of the strategy"
        )
    if current <= 1:
        raise KubectlError("rollout is already at the first step")
    best, best_share = 0, -1.0
    for number in range(current - 1, 0, -1):
        step = steps[number - 1]
        if str(step.get("traffic") or "0%") in ("0%", "0"):
            share = _share_of(step.get("replicas"))
            if share > best_share:
                best, best_share = number, share
    if not best:
        raise KubectlError("there is no earlier step without traffic")
    return field, best


def _share_of(replicas: Any) -> float:
    text = str(replicas if replicas is not None else 0)
    return float(text.removesuffix("%") or 0)


async def _return_fast(session: Session, info: Info) -> None:
    field, step = find_fast_step(info.document)
    body = {"status": {field: {"nextStepIndex": step}}}
    changed = await patch(session, info, body, manager=MANAGER, subresource="status")
    _Show(session, "rolled back")(changed)
