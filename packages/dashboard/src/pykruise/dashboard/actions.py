"""Actions on an object, as commands: the page shows a command for copying, and with --actions the dashboard runs it.

document ──▶ actions_of() (pure) ──▶ DashboardAction: words of `kubectl kruise` ──▶ text to copy
                                                                           └──▶ run_command(), as the user

There is no second way to write: a button does what its command does. This module decides which commands exist. A
browser only names a command and gives its values, and each value is a part of one word of the command line.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.kubectl.entry import run_async
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.kinds import current_step_of, pod_specs_of
from pykruise.cli.kubectl.session import Reached, Surroundings
from pykruise.dashboard.access import send_review
from pykruise.kinds import shown_of
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Transport, WrappedTransport
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource
from pykruise.plans.shown import Shown

_PROGRAM: Final = "kubectl kruise"
APPROVE: Final = ("rollout", "approve")
"""First words of the command that approves a step of a Rollout."""


class ActionField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that a person enters. It replaces `{name}` in the words of the command."""

    name: str
    label: str
    value: str = ""
    """Current value of the field."""
    is_revision: bool = False
    """Whether the value is the number of a stored revision. The page then offers a list of the older revisions."""


class DashboardAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action on an object."""

    id: str
    title: str
    words: tuple[str, ...]
    """Words after `kubectl kruise`. `{name}` is replaced by the value of a field."""
    command: str
    """Command to copy, with the current values of the fields."""
    fields: tuple[ActionField, ...] = ()
    subresource: str = ""
    """The patched subresource; empty if the object itself is patched."""


def actions_of(resource: Resource, document: Document) -> tuple[DashboardAction, ...]:
    """Return all actions that `kubectl kruise` supports for the object, in display order."""
    shown = shown_of(document)
    if shown is None:
        return ()
    meta = document["metadata"]
    target = f"{resource}/{meta['name']}"
    where = ("-n", meta["namespace"]) if meta.get("namespace") else ()

    def action(name: str, title: str, *words: str, fields: Sequence[ActionField] = ()) -> DashboardAction:
        whole = (*words, *where)
        values = {field.name: field.value for field in fields}
        return DashboardAction(
            id=name,
            title=title,
            words=whole,
            command=f"{_PROGRAM} {shlex.join(_fill_values(whole, values))}",
            fields=tuple(fields),
        )

    actions: list[DashboardAction] = []
    if (paused := shown.fields.get("paused")) is not None:
        is_paused = bool(paused.read_value(document))
        verb = "resume" if is_paused else "pause"
        actions.append(action(verb, verb.capitalize(), "rollout", verb, target))
    if current_step_of(document).get("currentStepState") == "StepPaused":
        actions.append(action("approve", "Approve the step", *APPROVE, target))
    if shown.verbs.restart:
        actions.append(action("restart", "Restart", "rollout", "restart", target))
    if shown.verbs.history:
        number = ActionField(name="revision", label="Revision", value="0", is_revision=True)
        actions.append(
            action(
                "undo", "Roll back", "rollout", "undo", target, "--to-revision={revision}", fields=[number]
            )
        )
    if isinstance(get_path(document, "spec", "replicas"), int):
        replicas = ActionField(name="replicas", label="Replicas", value=str(document["spec"]["replicas"]))
        actions.append(action("scale", "Scale", "scale", target, "--replicas={replicas}", fields=[replicas]))
    actions += [
        action(
            name.lower(),
            title,
            "set",
            name.lower(),
            target,
            "{value}",
            fields=[ActionField(name="value", label=title.removeprefix("Set "), value=value)],
        )
        for name, title, value in _list_amounts(shown, document)
    ]
    images = [] if shown.has_fixed_template else _list_containers(document)
    actions += [
        action(
            f"image-{number}",
            f"Set image of {name}",
            "set",
            "image",
            target,
            f"{name}={{image}}",
            fields=[ActionField(name="image", label=f"Image of {name}", value=image)],
        )
        for number, (name, image) in enumerate(images)
    ]
    return tuple(actions)


_MOST_CONTAINERS: Final = 20


def _list_containers(document: Document) -> list[tuple[str, str]]:
    containers = {
        str(container.get("name")): str(container.get("image") or "")
        for spec in pod_specs_of(document)
        for container in spec.get("containers") or ()
        if isinstance(container, Mapping)
    }
    return list(containers.items())[:_MOST_CONTAINERS]


_AMOUNTS: Final = (
    ("Set partition", "partition", "0"),
    ("Set maxUnavailable", "maxUnavailable", "1"),
    ("Set maxSurge", "maxSurge", "0"),
)
"""Title, name of the field, and default value."""


def _list_amounts(shown: Shown, document: Document) -> list[tuple[str, str, str]]:
    return [
        (name, title, str(default if (now := field.read_value(document)) is None else now))
        for title, name, default in _AMOUNTS
        if (field := shown.fields.get(name)) is not None
    ]


def argv_of(action: DashboardAction, values: Mapping[str, Any]) -> list[str]:
    """Return the words of the command with these values. Raises CommandError for a missing or invalid value."""
    given: dict[str, str] = {}
    for field in action.fields:
        value = values.get(field.name)
        if not isinstance(value, str) or not value or value.startswith("-") or not value.isprintable():
            raise CommandError(f"{field.label}: a value is required")
        if field.is_revision and not (value.isdecimal() and int(value) > 0):
            raise CommandError(f"{field.label}: choose a revision of the history")
        given[field.name] = value
    return _fill_values(action.words, given)


def _fill_values(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace `{name}` in the words by the values. Names of objects are never changed, because they contain no
    braces.
    """
    result = []
    for word in words:
        for name, value in values.items():
            word = word.replace(f"{{{name}}}", value)
        result.append(word)
    return result


_SELF_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def may_do(client: Client, resource: Resource, document: Document) -> bool:
    """Whether this user may change the object, according to the API server. Raises KubeError."""
    meta = document["metadata"]
    attributes = {
        "verb": "patch",
        "group": resource.group,
        "resource": resource.plural,
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
    }
    spec = {"resourceAttributes": {name: value for name, value in attributes.items() if value}}
    answer = await send_review(client, _SELF_REVIEWS, "SelfSubjectAccessReview", spec)
    return bool((answer.get("status") or {}).get("allowed"))


class _Kept(WrappedTransport):
    """Transport that stays open after the end of a command."""

    async def close(self) -> None:
        """Do nothing, because the transport has other users."""


class _Here(msgspec.Struct, frozen=True):
    transport: Transport
    namespace: str


async def run_command(client: Client, argv: Sequence[str]) -> tuple[int, str]:
    """Run the command with the user's own client. Return its exit code and its output."""
    said: list[str] = []

    async def connect(_: CommandCall) -> Reached:
        return _Here(_Kept(client.transport), "default")

    around = Surroundings(out=said.append, err=said.append, connect=connect, clock=client.clock)
    code = await run_async(argv, around)
    return code, "".join(said).strip()
