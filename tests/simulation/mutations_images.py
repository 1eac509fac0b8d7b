"""Mutations of ImagePullJobs and ImageListPullJobs; see mutations.py."""

from collections.abc import Callable
from typing import Any

import msgspec

from pykruise.kinds.imagelistpulljob import plan as list_plan
from pykruise.kinds.imagelistpulljob.kind import KIND as IMAGE_LIST_PULL_JOB
from pykruise.kinds.imagepulljob import node_image_entries as asking
from pykruise.kinds.imagepulljob import plan as pull_plan
from pykruise.kinds.imagepulljob import targets
from pykruise.kinds.imagepulljob.kind import KIND as IMAGE_PULL_JOB
from pykruise.kinds.nodeimage import entries
from pykruise.kinds.nodeimage import plan as node_plan
from pykruise.kinds.nodeimage import status as node_status
from pykruise.kinds.nodeimage.kind import KIND as NODE_IMAGE
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.jobs import fan_out
from pykruise.pods.jobs.fan_out import JobPolicy, TargetState
from pykruise.runtime.plan import Plan
from simulation.mutating import Change, always, trusts_the_cache

__all__ = ["IMAGELISTPULLJOB", "IMAGEPULLJOB"]

replace = msgspec.structs.replace


def _policy(
    change: Callable[[JobPolicy], JobPolicy], *, where: Any = pull_plan, name: str = "policy_of"
) -> Change:
    def changed(original: Any) -> Any:
        return lambda *args: change(original(*args))

    return where, name, changed


def _list_policy(change: Callable[[JobPolicy], JobPolicy]) -> Change:
    return _policy(change, where=list_plan, name="_build_policy")


def _by_any_answer(original: Any) -> Any:
    """The result of a node for an older entry counts."""

    def state_of(node: Any, job: Any, image: Any) -> TargetState:
        state: TargetState = original(node, job, image)
        said = node.statuses.get(image)
        if state is not TargetState.ACTIVE or said is None or not said.completion_time:
            return state
        return TargetState.SUCCEEDED if said.phase == "Succeeded" else TargetState.FAILED

    return state_of


def _never_failed(original: Any) -> Any:
    def state_of(child: Any) -> TargetState:
        state: TargetState = original(child)
        return TargetState.SUCCEEDED if state is TargetState.FAILED else state

    return state_of


def _same_version(original: Any) -> Any:
    return lambda entry, *args: replace(original(entry, *args), version=entry.version)


def _first_labels(original: Any) -> Any:
    def changes(*args: Any) -> Any:
        return {name: change for name, change in original(*args).items() if name != "metadata"}

    return changes


def _at_once(original: Any) -> Any:
    return lambda snapshot, node: original(replace(snapshot, creation_delay_s=0.0), node)


def _deaf_to(kind: str) -> Callable[[Any], Any]:
    def changed(original: Any) -> Any:
        return lambda settings: [wake for wake in original(settings) if wake.on.resource.kind != kind]

    return changed


IMAGEPULLJOB: dict[str, tuple[Change, ...]] = {
    "ImagePullJob: one node more than parallelism pulls": (
        _policy(lambda policy: replace(policy, parallelism=(policy.parallelism or 0) + 1)),
    ),
    "ImagePullJob: the deadline is ignored": (_policy(lambda policy: replace(policy, deadline_s=None)),),
    "ImagePullJob: the time to live is ignored": (
        (
            pull_plan,
            "_compute_time_to_live",
            lambda original: lambda snapshot: None if original(snapshot) is None else 0.0,
        ),
    ),
    "ImagePullJob: it completes while nodes pull": (
        (
            fan_out,
            "_is_complete",
            lambda _original: (
                lambda value, _policy: any(item.state is TargetState.SUCCEEDED for item in value)
            ),
        ),
    ),
    "ImagePullJob: answers to older entries count": ((targets, "state_of", _by_any_answer),),
    "ImagePullJob: nodes that are not selected get entries": ((PullJobView, "selects", always(True)),),
    "ImagePullJob: an ended job continues": (
        (PullJobView, "is_active", lambda _original: property(lambda self: not self.is_deleting)),
    ),
    "ImagePullJob: failed nodes are not counted": (
        (
            pull_plan,
            "compute_status",
            lambda original: lambda *args: replace(original(*args), failed=0, failed_nodes=None),
        ),
    ),
    "ImagePullJob: the other jobs that share an entry are ignored": ((asking, "_find_sharers", always([])),),
    "ImagePullJob: a shared entry keeps its version": ((asking, "_raise_entry", _same_version),),
    "ImagePullJob: a changed NodeImage enqueues no job": (
        (IMAGE_PULL_JOB.control, "wakes", _deaf_to("NodeImage")),
    ),
    "ImagePullJob: a new pod enqueues no job": ((IMAGE_PULL_JOB.control, "wakes", _deaf_to("Pod")),),
    "NodeImage: entries of deleted jobs are kept": ((entries, "_is_owner", always(True)),),
    "NodeImage: entries never expire": ((entries, "_compute_time_left", always(None)),),
    "NodeImage: entries are deleted while their job runs": ((entries, "_is_running", always(False)),),
    "NodeImage: an ended job enqueues no NodeImage": (
        (NODE_IMAGE.control, "wakes", _deaf_to("ImagePullJob")),
    ),
    "NodeImage: nodes that do not answer never time out": (
        (node_status, "RESPONSE_S", lambda _original: 1e9),
    ),
    "NodeImage: nodes time out too early": ((node_status, "RESPONSE_S", lambda _original: 60.0),),
    "NodeImage: a NodeImage without a node is not deleted": ((node_plan, "_delete_object", always(Plan())),),
    "NodeImage: changed labels of the node are not copied": ((node_plan, "_build_changes", _first_labels),),
    "NodeImage: a new node gets a NodeImage immediately": ((node_plan, "_create_object", _at_once),),
}


IMAGELISTPULLJOB: dict[str, tuple[Change, ...]] = {
    "ImageListPullJob: a changed template is ignored": ((list_plan, "is_same", always(True)),),
    "ImageListPullJob: every ImagePullJob counts as outdated": ((list_plan, "is_same", always(False)),),
    "ImageListPullJob: ImagePullJobs of unlisted images are not deleted": (
        (list_plan, "_match_jobs", lambda original: lambda *args: (original(*args)[0], ())),
    ),
    "ImageListPullJob: it completes while images are pulled": (
        (
            fan_out,
            "_is_complete",
            lambda _original: (
                lambda value, _policy: any(item.state is TargetState.SUCCEEDED for item in value)
            ),
        ),
    ),
    "ImageListPullJob: failed images count as succeeded": ((list_plan, "state_of", _never_failed),),
    "ImageListPullJob: the completion policy Never is ignored": (
        _list_policy(lambda policy: replace(policy, ends=True)),
    ),
    "ImageListPullJob: the time to live is ignored": (
        _list_policy(lambda policy: replace(policy, ttl_s=None if policy.ttl_s is None else 0)),
    ),
    "ImageListPullJob: an ImagePullJob that is not in the cache yet counts as deleted": (trusts_the_cache,),
    "ImageListPullJob: an ended ImagePullJob enqueues no list job": (
        (IMAGE_LIST_PULL_JOB.control, "wakes", _deaf_to("ImagePullJob")),
    ),
}
