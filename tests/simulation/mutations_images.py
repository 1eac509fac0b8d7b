"""Rules of images that are pulled ahead, broken on purpose; see mutations.py."""

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
    return _policy(change, where=list_plan, name="_policy_of")


def _by_any_answer(original: Any) -> Any:
    """What a node said of an older entry counts."""

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
    "ImagePullJob: one node more than parallelism": (
        _policy(lambda policy: replace(policy, parallelism=(policy.parallelism or 0) + 1)),
    ),
    "ImagePullJob: the deadline is ignored": (_policy(lambda policy: replace(policy, deadline_s=None)),),
    "ImagePullJob: the time to live is ignored": (
        (
            pull_plan,
            "_time_to_live",
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
    "ImagePullJob: nodes that are not selected are asked": ((PullJobView, "selects", always(True)),),
    "ImagePullJob: what is over goes on": (
        (PullJobView, "is_active", lambda _original: property(lambda self: not self.is_deleting)),
    ),
    "ImagePullJob: failed nodes are not counted": (
        (
            pull_plan,
            "status_now",
            lambda original: lambda *args: replace(original(*args), failed=0, failed_nodes=None),
        ),
    ),
    "ImagePullJob: other jobs of an entry are forgotten": ((asking, "_find_sharers", always([])),),
    "ImagePullJob: a shared entry keeps its version": ((asking, "_raise_entry", _same_version),),
    "ImagePullJob: nodes that answer wake no job": (
        (IMAGE_PULL_JOB.control, "wakes", _deaf_to("NodeImage")),
    ),
    "ImagePullJob: pods that come wake no job": ((IMAGE_PULL_JOB.control, "wakes", _deaf_to("Pod")),),
    "NodeImage: entries of jobs that are gone stay": ((entries, "_is_owner", always(True)),),
    "NodeImage: entries stay for ever": ((entries, "_time_left", always(None)),),
    "NodeImage: entries go while their job goes on": ((entries, "_is_running", always(False)),),
    "NodeImage: jobs that end wake none": ((NODE_IMAGE.control, "wakes", _deaf_to("ImagePullJob")),),
    "NodeImage: silent nodes are waited for for ever": ((node_status, "RESPONSE_S", lambda _original: 1e9),),
    "NodeImage: nodes are silent too soon": ((node_status, "RESPONSE_S", lambda _original: 60.0),),
    "NodeImage: they stay without their node": ((node_plan, "_delete_object", always(Plan())),),
    "NodeImage: they keep their first labels": ((node_plan, "_build_changes", _first_labels),),
    "NodeImage: nodes get one at once": ((node_plan, "_create_object", _at_once),),
}


IMAGELISTPULLJOB: dict[str, tuple[Change, ...]] = {
    "ImageListPullJob: another template changes nothing": ((list_plan, "same", always(True)),),
    "ImageListPullJob: ImagePullJobs are always of another template": ((list_plan, "same", always(False)),),
    "ImageListPullJob: ImagePullJobs of images that are not listed stay": (
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
    "ImageListPullJob: failed images have succeeded": ((list_plan, "state_of", _never_failed),),
    "ImageListPullJob: Never is ignored": (_list_policy(lambda policy: replace(policy, ends=True)),),
    "ImageListPullJob: the time to live is ignored": (
        _list_policy(lambda policy: replace(policy, ttl_s=None if policy.ttl_s is None else 0)),
    ),
    "ImageListPullJob: an ImagePullJob that the cache has never shown is gone": (trusts_the_cache,),
    "ImageListPullJob: ImagePullJobs that end wake no list": (
        (IMAGE_LIST_PULL_JOB.control, "wakes", _deaf_to("ImagePullJob")),
    ),
}
