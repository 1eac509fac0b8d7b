"""Objects that make a manager create and delete, or write repeatedly. They are stored without a webhook.

Target ──▶ churn(): templates with marks that are for single pods, the objects of restless_objects.py
"""

from typing import Final

from bench.attack_target import UNREVIEWED, Target, stored_meanwhile, storing
from pykruise.kinds import find_kind
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.pods.view.keys import SPECIFIED_DELETE_LABEL
from pykruise.runtime.churn import FREE_TURNS
from support.restless_objects import STORED

__all__ = ["CHURNED", "MOST_CHURNED", "churn"]

SETS: Final = 10
"""Number of workloads of each of the two kinds."""
CHURNED: Final = "pods made by churn"
"""The words under which created pods are counted."""
REPLICAS: Final = 5
MOST_CHURNED: Final = 2 * SETS * REPLICAS * (FREE_TURNS + 6)
"""Maximum number of pods that the manager creates for them within a minute: it reconciles each of them FREE_TURNS times
without a wait, and then after waits of 1, 2, 4, 8, 16 and 32 seconds."""


async def churn(target: Target) -> None:
    """Twenty workloads whose template marks each of its pods for deletion, and one of each restless object."""
    objects = [
        *((CLONE_SETS, _marked(f"churn-clone-{number}")) for number in range(SETS)),
        *(
            (ADVANCED_STATEFUL_SETS, _marked(f"churn-set-{number}", serviceName="a"))
            for number in range(SETS)
        ),
        *(
            (find_kind(kind).resource, {"metadata": {"name": f"restless-{number}"}, "spec": spec})
            for number, (kind, spec) in enumerate(STORED.values())
            if find_kind(kind).resource.namespaced
        ),
    ]
    async with storing(target) as client:
        version = (await client.list(PODS, UNREVIEWED)).resource_version
        watch = client.watch(PODS, UNREVIEWED, resource_version=version)
        async with stored_meanwhile(client, objects), watch as events:
            async for event in events:
                target.counts[CHURNED] += event.type == "ADDED"


def _marked(name: str, **fields: str) -> Document:
    labels = {"app": name}
    template = {
        "metadata": {"labels": {**labels, SPECIFIED_DELETE_LABEL: "true"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template, **fields}
    return {"metadata": {"name": name}, "spec": spec}
