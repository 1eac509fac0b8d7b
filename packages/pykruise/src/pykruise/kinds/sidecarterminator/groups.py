"""Sidecar containers of a run-to-completion pod, and how each of them is ended.

PodView (+ whether its node is virtual) ──▶ groups_of() ──▶ Groups      is_interesting() ──▶ whether to reconcile the
pod

Pure. The environment of a container decides whether it is a sidecar. This is the rule of OpenKruise's job sidecar
terminator.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pykruise.pods.view.containers import ContainerFacts
from pykruise.pods.view.pod_view import PodView

_ALWAYS: Final = "Always"
_ON_FAILURE: Final = "OnFailure"


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Sidecars grouped by how they are ended, in the pod's order."""

    by_image: tuple[ContainerFacts, ...] = ()
    """Sidecars on virtual nodes. They get another image, whose process exits."""
    normal: tuple[ContainerFacts, ...] = ()
    """Sidecars to kill."""
    ignored: tuple[ContainerFacts, ...] = ()
    """Sidecars whose exit code is ignored. They are killed after the pod has a final phase, which depends only on the
    main containers.
    """


def groups_of(pod: PodView, *, is_virtual: bool) -> Groups:
    """Group the sidecars by how they are ended. A sidecar that cannot be ended on the pod's node is in no group."""
    sidecars = [(container, container.ends_with_job) for container in pod.containers]
    if is_virtual:
        return Groups(
            by_image=tuple(sidecar for sidecar, ends in sidecars if ends is not None and ends.image)
        )
    killed = [(sidecar, ends) for sidecar, ends in sidecars if ends is not None and ends.is_killed]
    return Groups(
        normal=tuple(container for container, ends in killed if not ends.is_ignored),
        ignored=tuple(container for container, ends in killed if ends.is_ignored),
    )


def select_mains(pod: PodView) -> list[ContainerFacts]:
    """The containers that are not sidecars."""
    return [container for container in pod.containers if container.ends_with_job is None]


def is_completed(pod: PodView, containers: Iterable[ContainerFacts]) -> bool:
    """Whether each of these containers has ended. Containers without a status are ignored."""
    names = {container.name for container in containers}
    return all(status.exit_code is not None for status in pod.container_statuses if status.name in names)


def select_running(pod: PodView, containers: Sequence[ContainerFacts]) -> list[ContainerFacts]:
    """Containers whose status does not show that they have ended."""
    ended = {status.name for status in pod.container_statuses if status.exit_code is not None}
    return [container for container in containers if container.name not in ended]


def has_succeeded(pod: PodView, containers: Iterable[ContainerFacts]) -> bool:
    """Whether each of these containers has ended with exit code 0. Containers without a status are ignored."""
    names = {container.name for container in containers}
    return all(status.exit_code == 0 for status in pod.container_statuses if status.name in names)


def is_interesting(pod: PodView) -> bool:
    """Whether the main containers have ended and a sidecar may still have to be ended."""
    if pod.restart_policy == _ALWAYS or pod.is_deleting or pod.phase == "Pending":
        return False
    if len(pod.container_statuses) != len(pod.containers):
        return False  # the state of some containers is unknown
    main = select_mains(pod)
    if not is_completed(pod, main) or is_completed(pod, pod.containers):
        return False
    return pod.restart_policy != _ON_FAILURE or has_succeeded(pod, main)
