"""ImagePullJob and ImageListPullJob. Nodes pull what NodeImages say; the agent on them is pykruise's."""

from typing import Any, Final

from recorded_original.language import Create, Delete, Document, Group, Patch, Settle, Try, TryPatch
from recorded_original.scenarios.documents import BOTH, KRUISE, build_difference, build_scenario

__all__ = ["IMAGE_LIST_PULL_JOB", "IMAGE_PULL_JOB"]

_KIND: Final = "ImagePullJob"
_LIST: Final = "ImageListPullJob"


def _document(kind: str, **spec: Any) -> Document:
    what: Document = {"image": "redis:7"} if kind == _KIND else {"images": ["redis:7", "nginx:1.27"]}
    always = {"completionPolicy": {"type": "Always"}}
    return {
        "apiVersion": KRUISE,
        "kind": kind,
        "metadata": {"name": "pull"},
        "spec": {**what, **always, **spec},
    }


def _pull(**spec: Any) -> Create:
    return Create(_document(_KIND, **spec))


def _try(**spec: Any) -> Try:
    return Try(_document(_KIND, **spec))


IMAGE_PULL_JOB: Final = Group(
    kind=_KIND,
    differs=(
        build_difference(
            "the controller adds the finalizer, in both versions", "*/finalizers", only_in="v1alpha1"
        ),
    ),
    shows_nodes=True,
    one_by_one=True,
    scenarios=(
        build_scenario("every node pulls", _pull(), Settle(), versions=BOTH),
        build_scenario(
            "nodes of a selector",
            _pull(selector={"matchLabels": {"kubernetes.io/hostname": "node-2"}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "nodes by name", _pull(selector={"names": ["node-1", "node-4"]}), Settle(), versions=BOTH
        ),
        build_scenario(
            "a node that does not exist",
            _pull(selector={"names": ["node-1", "no-such"]}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "no node fits", _pull(selector={"matchLabels": {"no": "such"}}), Settle(), versions=BOTH
        ),
        build_scenario("one node at a time", _pull(parallelism=1, image="redis:8"), Settle(), versions=BOTH),
        build_scenario(
            "an image that cannot be pulled",
            _pull(image="redis/broken:1", pullPolicy={"backoffLimit": 0, "timeoutSeconds": 5}),
            Settle(quiet_s=10),
            versions=BOTH,
        ),
        build_scenario(
            "a deadline passes",
            _pull(image="slow/broken:1", completionPolicy={"type": "Always", "activeDeadlineSeconds": 4}),
            Settle(quiet_s=10),
            versions=BOTH,
        ),
        build_scenario(
            "it never completes", _pull(completionPolicy={"type": "Never"}), Settle(), versions=BOTH
        ),
        build_scenario(
            "it is removed after it is done",
            _pull(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 20}),
            Settle(quiet_s=3),
            Settle(quiet_s=25),
            versions=BOTH,
        ),
        build_scenario("deleted", _pull(), Settle(), Delete(_KIND, "pull"), Settle(), versions=BOTH),
        build_scenario("the smallest manifest", _try(), versions=BOTH),
        build_scenario(
            "defaults",
            _try(pullPolicy={}),
            _try(completionPolicy={}),
            _try(completionPolicy={"type": "Never"}),
            _try(imagePullPolicy="Always"),
            _try(pullSecrets=["one"]),
            _try(sandboxConfig={"labels": {"a": "b"}}),
        ),
        build_scenario(
            "wrong values",
            _try(image=""),
            _try(image="UPPER CASE"),
            _try(image="nginx"),
            _try(parallelism=-1),
            _try(parallelism="x"),
            _try(selector={"names": ["node-1"], "matchLabels": {"a": "b"}}),
            _try(selector={"names": []}),
            _try(podSelector={"matchLabels": {"a": "b"}}, selector={"matchLabels": {"a": "b"}}),
            _try(selector={"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}),
            _try(completionPolicy={"type": "Never", "activeDeadlineSeconds": 5}),
            _try(completionPolicy={"type": "Never", "ttlSecondsAfterFinished": 5}),
            _try(completionPolicy={"type": "Sometimes"}),
            _try(
                completionPolicy={"type": "Always", "activeDeadlineSeconds": 600},
                pullPolicy={"timeoutSeconds": 900},
            ),
            _try(pullPolicy={"backoffLimit": -1}),
            _try(pullPolicy={"timeoutSeconds": -1}),
            _try(imagePullPolicy="Never"),
            _try(pullSecrets=["a", "a"]),
            versions=BOTH,
            differs=(build_difference("it could only fail later", "4 *", "5 *", only_in="v1alpha1"),),
        ),
        build_scenario(
            "changes",
            _pull(completionPolicy={"type": "Never"}),
            Settle(),
            TryPatch(_KIND, "pull", {"spec": {"parallelism": 2}}),
            TryPatch(_KIND, "pull", {"spec": {"image": "redis:9"}}),
            TryPatch(_KIND, "pull", {"spec": {"completionPolicy": {"type": "Always"}}}),
            versions=BOTH,
        ),
    ),
)


def _pulls(**spec: Any) -> Create:
    return Create(_document(_LIST, **spec))


def _try_list(**spec: Any) -> Try:
    return Try(_document(_LIST, **spec))


IMAGE_LIST_PULL_JOB: Final = Group(
    kind=_LIST,
    shows_nodes=True,
    one_by_one=True,
    watched=(_KIND,),
    scenarios=(
        build_scenario("every node pulls all", _pulls(), Settle(), versions=BOTH),
        build_scenario("nodes by name", _pulls(selector={"names": ["node-1"]}), Settle(), versions=BOTH),
        build_scenario(
            "one image cannot be pulled",
            _pulls(images=["redis:7", "redis/broken:1"], pullPolicy={"backoffLimit": 0, "timeoutSeconds": 5}),
            Settle(quiet_s=10),
            versions=BOTH,
            differs=(
                build_difference(
                    "the message names the field that says where", "*/failedImageStatuses/*/message"
                ),
            ),
        ),
        build_scenario(
            "it never completes", _pulls(completionPolicy={"type": "Never"}), Settle(), versions=BOTH
        ),
        build_scenario(
            "images change",
            _pulls(completionPolicy={"type": "Never"}),
            Settle(),
            Patch(_LIST, "pull", {"spec": {"images": ["redis:7", "busybox:1"]}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "it is removed after it is done",
            _pulls(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 20}),
            Settle(quiet_s=3),
            Settle(quiet_s=25),
            versions=BOTH,
            differs=(build_difference("ImagePullJobs of a list go with it", "*/ttlSecondsAfterFinished"),),
        ),
        build_scenario("deleted", _pulls(), Settle(), Delete(_LIST, "pull"), Settle(), versions=BOTH),
        build_scenario(
            "no node fits",
            _pulls(selector={"matchLabels": {"no": "such"}}),
            Settle(),
            versions=BOTH,
            differs=(
                build_difference(
                    "an image that no node has pulled is not a success",
                    "*/succeeded",
                    "*/failedImageStatuses",
                ),
            ),
        ),
        build_scenario("the smallest manifest", _try_list(), versions=BOTH),
        build_scenario(
            "defaults",
            _try_list(pullPolicy={}),
            _try_list(pullPolicy={"timeoutSeconds": 5}),
            _try_list(pullPolicy={"backoffLimit": 5}),
            _try_list(completionPolicy={}),
            versions=BOTH,
            differs=(
                build_difference(
                    "each part of the policy gets its default, as an ImagePullJob's does",
                    "*/pullPolicy/*",
                    only_in="v1beta1",
                ),
            ),
        ),
        build_scenario(
            "wrong values",
            _try_list(images=[]),
            _try_list(images=["a", "a"]),
            _try_list(images=["UPPER CASE"]),
            _try_list(images=[""]),
            _try_list(parallelism=-1),
            _try_list(completionPolicy={"type": "Never", "activeDeadlineSeconds": 5}),
            _try_list(pullPolicy={"backoffLimit": -1}),
            _try_list(selector={"names": ["node-1"], "matchLabels": {"a": "b"}}),
            versions=BOTH,
            differs=(
                build_difference("it could only fail later", "5 *", only_in="v1alpha1"),
                build_difference(
                    "each part of the policy gets its default, as an ImagePullJob's does",
                    "7 */pullPolicy/*",
                    only_in="v1beta1",
                ),
            ),
        ),
    ),
)
