"""Events that enqueue a PersistentPodState.

The PersistentPodState itself · pods of its workload: ready, terminating, deleted, adopted, released, or the reason why
a pod does not run changed · workloads: requests in annotations, replicas, ordinals · recorded nodes: changes of
recorded labels

Pure, except for what `around` reads. A heartbeat of a node enqueues nothing.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from pykruise.kinds.persistentpodstate.view import (
    BY_NODE,
    BY_TARGET,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    RecordedWorkload,
    choose_state,
)
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.view.keys import INJECTED_STATE_ANNOTATION
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Around
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake, split_by_owner, wake_itself


def list_wakes(settings: object) -> Sequence[Wake]:
    """Return the wakes. They are the same for all settings."""
    return (
        wake_itself(STATE_VIEWS),
        Wake(on=POD_VIEWS, keys=_find_keys_of_pod, wakes_absent=False),
        Wake(on=NODE_VIEWS, keys=_find_keys_of_node, wakes_absent=False),
        *(
            Wake(on=views, keys=partial(_find_keys_of_workload, kind))
            for kind, views in WORKLOAD_VIEWS.items()
        ),
    )


def make_further_wake(views: Views[RecordedWorkload]) -> Wake:
    """Return the wake for workloads of a kind on the white list."""
    kind = GroupKind(views.resource.group, views.resource.kind)
    return Wake(on=views, keys=partial(_find_keys_of_workload, kind))


def _find_keys_of_pod(change: Change[PodView], around: Around[object]) -> Iterator[Key]:
    """Yield the key of the PersistentPodState that records the pod, if the pod becomes Ready, terminates, is deleted,
    or gets another controller, or if the reason why it does not run changes.
    """
    if _is_relevant(change.old, change.new):
        for pod in split_by_owner(change):
            yield from _find_key_of_owner(pod, around)


def _find_key_of_owner(pod: PodView, around: Around[object]) -> Iterator[Key]:
    if pod.controller is None:
        return
    name = pod.annotations.get(INJECTED_STATE_ANNOTATION, "")
    if around.get(STATE_VIEWS, Key(pod.namespace, name)) is not None:
        yield Key(pod.namespace, name)
        return
    kind = GroupKind(pod.controller.group, pod.controller.kind)
    state = choose_state(
        around.list_by_index(STATE_VIEWS, BY_TARGET, (pod.namespace, kind, pod.controller.name))
    )
    if state is not None:
        yield state.key


def _find_keys_of_node(change: Change[NodeView], around: Around[object]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is None or new is None or old.labels == new.labels:
        return
    for state in around.list_by_index(STATE_VIEWS, BY_NODE, new.name):
        if any(old.labels.get(key) != new.labels.get(key) for key in state.node_keys):
            yield state.key


def _is_relevant(old: PodView | None, new: PodView | None) -> bool:
    if new is None:
        return True
    if old is None:
        return new.is_ready
    if new.controller != old.controller:
        return True
    return (
        (new.is_deleting and not old.is_deleting)
        or (new.is_ready and not old.is_ready)
        or has_new_obstacle(old, new)
    )


def _find_keys_of_workload(
    kind: GroupKind, change: Change[RecordedWorkload], around: Around[object]
) -> Iterator[Key]:
    """Yield the keys of the PersistentPodState that the workload requests, and of those that record its pods."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.is_same_request(new):
        return
    if any(workload is not None and workload.is_generating for workload in (old, new)):
        yield change.key
    for state in around.list_by_index(STATE_VIEWS, BY_TARGET, (change.key.namespace, kind, change.key.name)):
        yield state.key
