"""BroadcastJob and AdvancedCronJob."""

from typing import Any, Final

from recorded_original.language import (
    Create,
    Delete,
    Document,
    Group,
    NextMinute,
    Patch,
    Settle,
    Try,
    TryPatch,
)
from recorded_original.scenarios.documents import BOTH, KRUISE, build_difference, build_scenario

__all__ = ["ADVANCED_CRON_JOB", "BROADCAST_JOB"]

_JOB: Final = "BroadcastJob"
_CRON: Final = "AdvancedCronJob"


def _pods(image: str = "busybox:1", **spec: Any) -> Document:
    return {
        "metadata": {"labels": {"app": "job"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}], **spec},
    }


def _document(**spec: Any) -> Document:
    return {
        "apiVersion": KRUISE,
        "kind": _JOB,
        "metadata": {"name": "job"},
        "spec": {"template": _pods(), **spec},
    }


def _job(**spec: Any) -> Create:
    return Create(_document(**spec))


def _try(**spec: Any) -> Try:
    return Try(_document(**spec))


_TWO_NODES: Final[Document] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {
                                "key": "kubernetes.io/hostname",
                                "operator": "In",
                                "values": ["node-1", "node-3"],
                            }
                        ]
                    }
                ]
            }
        }
    }
}

BROADCAST_JOB: Final = Group(
    kind=_JOB,
    shows_nodes=True,
    scenarios=(
        build_scenario("every node runs it", _job(), Settle(), versions=BOTH),
        build_scenario("one after the other", _job(parallelism=1), Settle(), versions=BOTH),
        build_scenario("half of the nodes at a time", _job(parallelism="50%"), Settle(), versions=BOTH),
        build_scenario(
            "some nodes run it",
            _job(template=_pods(nodeSelector={"kubernetes.io/hostname": "node-2"})),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("nodes by affinity", _job(template=_pods(**_TWO_NODES)), Settle(), versions=BOTH),
        build_scenario(
            "no node fits", _job(template=_pods(nodeSelector={"no": "such"})), Settle(), versions=BOTH
        ),
        build_scenario(
            "it never completes", _job(completionPolicy={"type": "Never"}), Settle(), versions=BOTH
        ),
        build_scenario(
            "paused from the beginning",
            _job(paused=True),
            Settle(),
            Patch(_JOB, "job", {"spec": {"paused": False}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("a broken image", _job(template=_pods("busybox/broken")), Settle(), versions=BOTH),
        build_scenario(
            "a deadline passes",
            _job(
                template=_pods("busybox/broken"),
                completionPolicy={"type": "Always", "activeDeadlineSeconds": 6},
            ),
            Settle(quiet_s=10),
            versions=BOTH,
        ),
        build_scenario(
            "it is removed after it is done",
            _job(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 20}),
            Settle(quiet_s=3),
            Settle(quiet_s=25),
            versions=BOTH,
        ),
        build_scenario(
            "deleted with its pods", _job(), Settle(), Delete(_JOB, "job"), Settle(), versions=BOTH
        ),
        build_scenario(
            "parallelism of nothing",
            _job(parallelism=0),
            Settle(),
            Patch(_JOB, "job", {"spec": {"parallelism": 4}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("the smallest manifest", _try(), versions=BOTH),
        build_scenario(
            "defaults",
            _try(completionPolicy={}),
            _try(completionPolicy={"type": "Never"}),
            _try(failurePolicy={}),
            _try(failurePolicy={"type": "Continue"}),
            _try(paused=False),
            versions=BOTH,
        ),
        build_scenario(
            "wrong values",
            _try(parallelism=-1),
            _try(parallelism="x"),
            _try(completionPolicy={"type": "Sometimes"}),
            _try(completionPolicy={"type": "Never", "ttlSecondsAfterFinished": 5}),
            _try(completionPolicy={"type": "Never", "activeDeadlineSeconds": 5}),
            _try(completionPolicy={"activeDeadlineSeconds": -1}),
            _try(failurePolicy={"type": "Nonsense"}),
            _try(failurePolicy={"restartLimit": -1}),
            _try(template=_pods(restartPolicy="Always")),
            _try(template={"spec": {"restartPolicy": "Never", "containers": []}}),
            versions=BOTH,
            differs=(build_difference("it could only fail later", "1 *", "2 *", "6 *", "8 *"),),
        ),
        build_scenario(
            "changes",
            _job(paused=True),
            Settle(),
            TryPatch(_JOB, "job", {"spec": {"parallelism": 2}}),
            TryPatch(_JOB, "job", {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}}),
            TryPatch(_JOB, "job", {"spec": {"completionPolicy": {"type": "Never"}}}),
            versions=BOTH,
        ),
    ),
)


def _cron(template: Document | None = None, **spec: Any) -> Document:
    chosen = template or {"jobTemplate": {"spec": {"template": _pods()}}}
    spec = {"schedule": "* * * * *", "template": chosen, **spec}
    return {"apiVersion": KRUISE, "kind": _CRON, "metadata": {"name": "cron"}, "spec": spec}


def _broadcast(**spec: Any) -> Document:
    return {
        "broadcastJobTemplate": {
            "metadata": {"labels": {"made-by": "cron"}, "annotations": {"note": "1"}},
            "spec": {"template": _pods(), **spec},
        }
    }


_NEVER: Final = "0 0 1 1 *"
_PULL: Final[Document] = {
    "imageListPullJobTemplate": {"spec": {"images": ["nginx:1"], "completionPolicy": {"type": "Always"}}}
}

ADVANCED_CRON_JOB: Final = Group(
    kind=_CRON,
    differs=(
        build_difference("an event names the job that it created", "*/events/*Normal SuccessfulCreate"),
        build_difference(
            "labels and annotations of the template reach the jobs",
            "*/broadcastJobTemplate/metadata/*",
            "*/objects/BroadcastJob */labels/*",
            "*/objects/BroadcastJob */annotations/*",
        ),
        build_difference(
            "the status follows the jobs: the original writes it at the next time of the schedule",
            "*/status/active",
            "*/status/lastScheduleTime",
        ),
    ),
    watched=("Job", _JOB),
    scenarios=(
        build_scenario(
            "a Job each minute", NextMinute(), Create(_cron()), NextMinute(), Settle(), versions=BOTH
        ),
        build_scenario(
            "a BroadcastJob each minute",
            NextMinute(),
            Create(_cron(_broadcast())),
            NextMinute(),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "two minutes", NextMinute(), Create(_cron()), NextMinute(), NextMinute(), Settle(), versions=BOTH
        ),
        build_scenario(
            "old Jobs are removed",
            NextMinute(),
            Create(_cron(successfulJobsHistoryLimit=1)),
            NextMinute(),
            NextMinute(),
            Settle(),
            versions=BOTH,
            differs=(
                build_difference(
                    "a job that is over the limit goes when it is over, not at the next time",
                    "5 */objects/Job *",
                    "5 */pods",
                ),
            ),
        ),
        build_scenario(
            "no second one beside the first",
            NextMinute(),
            Create(
                _cron(
                    {"jobTemplate": {"spec": {"template": _pods("busybox/broken")}}},
                    concurrencyPolicy="Forbid",
                )
            ),
            NextMinute(),
            NextMinute(),
            Settle(),
            versions=BOTH,
            differs=(build_difference("an event says why no job was created", "*/events/*JobAlreadyActive"),),
        ),
        build_scenario(
            "a second one replaces the first",
            NextMinute(),
            Create(
                _cron(
                    {"jobTemplate": {"spec": {"template": _pods("busybox/broken")}}},
                    concurrencyPolicy="Replace",
                )
            ),
            NextMinute(),
            NextMinute(),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a second one beside the first",
            NextMinute(),
            Create(_cron({"jobTemplate": {"spec": {"template": _pods("busybox/broken")}}})),
            NextMinute(),
            NextMinute(),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "paused", NextMinute(), Create(_cron(paused=True)), NextMinute(), Settle(), versions=BOTH
        ),
        build_scenario("nothing is due", Create(_cron(schedule=_NEVER)), Settle(), versions=BOTH),
        build_scenario(
            "deleted with its Jobs",
            NextMinute(),
            Create(_cron()),
            NextMinute(),
            Delete(_CRON, "cron"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("the smallest manifest", Try(_cron(schedule=_NEVER)), versions=BOTH),
        build_scenario(
            "the smallest manifest with a BroadcastJob",
            Try(_cron(_broadcast(), schedule=_NEVER)),
            versions=BOTH,
        ),
        build_scenario("the smallest manifest with an ImageListPullJob", Try(_cron(_PULL, schedule=_NEVER))),
        build_scenario(
            "schedules",
            *(
                Try(_cron(schedule=literal))
                for literal in (
                    "@hourly",
                    "@every 5m",
                    "*/7 1-3 * JAN MON",
                    "0 0 30 2 *",
                    "TZ=Europe/Berlin 0 3 * * *",
                )
            ),
            Try(_cron(schedule=_NEVER, timeZone="Europe/Berlin")),
        ),
        build_scenario(
            "wrong values",
            Try(_cron(schedule="x")),
            Try(_cron(schedule="* * * *")),
            Try(_cron(schedule="")),
            Try(_cron(schedule="61 * * * *")),
            Try(_cron(concurrencyPolicy="Sometimes")),
            Try(_cron(startingDeadlineSeconds=-1)),
            Try(_cron(successfulJobsHistoryLimit=-1)),
            Try(_cron(timeZone="Nowhere/City")),
            Try(_cron(timeZone="")),
            Try(_cron({**_broadcast(), "jobTemplate": {"spec": {"template": _pods()}}})),
            Try(_cron({"jobTemplate": {"spec": {"template": _pods(restartPolicy="Always")}}})),
            Try(_cron(_broadcast(parallelism=-1))),
            differs=(build_difference("each BroadcastJob would be rejected when it is created", "12 *"),),
        ),
        build_scenario(
            "changes",
            Create(_cron(schedule=_NEVER)),
            Settle(),
            TryPatch(_CRON, "cron", {"spec": {"schedule": "@daily"}}),
            TryPatch(_CRON, "cron", {"spec": {"schedule": "x"}}),
            TryPatch(_CRON, "cron", {"spec": {"paused": True}}),
            versions=BOTH,
        ),
    ),
)
