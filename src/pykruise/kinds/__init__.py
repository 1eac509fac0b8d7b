"""The workloads, one folder a kind.

crds() ──▶ what a cluster must know     conversions() ──▶ how objects go between their versions
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

import orjson

from pykruise.kinds.advancedcronjob.conversion import CONVERSION as ADVANCED_CRON_JOB
from pykruise.kinds.advancedcronjob.crd import crd as advanced_cron_job_crd
from pykruise.kinds.broadcastjob.conversion import CONVERSION as BROADCAST_JOB
from pykruise.kinds.broadcastjob.crd import crd as broadcast_job_crd
from pykruise.kinds.broadcastjob.types import BroadcastJobSpec
from pykruise.kinds.cloneset.conversion import CONVERSION as CLONE_SET
from pykruise.kinds.cloneset.crd import crd as clone_set_crd
from pykruise.kinds.cloneset.types import CloneSetSpec
from pykruise.kinds.containerrecreaterequest.conversion import CONVERSION as CONTAINER_RECREATE_REQUEST
from pykruise.kinds.containerrecreaterequest.crd import crd as container_recreate_request_crd
from pykruise.kinds.daemonset.conversion import CONVERSION as DAEMON_SET
from pykruise.kinds.daemonset.crd import crd as daemon_set_crd
from pykruise.kinds.ephemeraljob.crd import crd as ephemeral_job_crd
from pykruise.kinds.imagelistpulljob.conversion import CONVERSION as IMAGE_LIST_PULL_JOB
from pykruise.kinds.imagelistpulljob.crd import crd as image_list_pull_job_crd
from pykruise.kinds.imagelistpulljob.types import ImageListPullJobSpec
from pykruise.kinds.imagepulljob.conversion import CONVERSION as IMAGE_PULL_JOB
from pykruise.kinds.imagepulljob.crd import crd as image_pull_job_crd
from pykruise.kinds.nodeimage.conversion import CONVERSION as NODE_IMAGE
from pykruise.kinds.nodeimage.crd import crd as node_image_crd
from pykruise.kinds.nodepodprobe.crd import crd as node_pod_probe_crd
from pykruise.kinds.persistentpodstate.conversion import CONVERSION as PERSISTENT_POD_STATE
from pykruise.kinds.persistentpodstate.crd import crd as persistent_pod_state_crd
from pykruise.kinds.podprobemarker.crd import crd as pod_probe_marker_crd
from pykruise.kinds.podunavailablebudget.conversion import CONVERSION as POD_UNAVAILABLE_BUDGET
from pykruise.kinds.podunavailablebudget.crd import crd as pod_unavailable_budget_crd
from pykruise.kinds.resourcedistribution.conversion import CONVERSION as RESOURCE_DISTRIBUTION
from pykruise.kinds.resourcedistribution.crd import crd as resource_distribution_crd
from pykruise.kinds.sidecarset.conversion import CONVERSION as SIDECAR_SET
from pykruise.kinds.sidecarset.crd import crd as sidecar_set_crd
from pykruise.kinds.statefulset.conversion import CONVERSION as STATEFUL_SET
from pykruise.kinds.statefulset.crd import crd as stateful_set_crd
from pykruise.kinds.statefulset.types import StatefulSetSpec
from pykruise.kinds.uniteddeployment.conversion import CONVERSION as UNITED_DEPLOYMENT
from pykruise.kinds.uniteddeployment.crd import crd as united_deployment_crd
from pykruise.kinds.workloadspread.conversion import CONVERSION as WORKLOAD_SPREAD
from pykruise.kinds.workloadspread.crd import crd as workload_spread_crd
from pykruise.kube.conversion import Conversion, Conversions
from pykruise.kube.crds import structural_schema
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import Resource

__all__ = ["conversions", "crds", "crds_of"]

_CRDS: Final[Mapping[str, Callable[[], Document]]] = {
    "broadcastjobs": broadcast_job_crd,
    "clonesets": clone_set_crd,
    "containerrecreaterequests": container_recreate_request_crd,
    "daemonsets": daemon_set_crd,
    "ephemeraljobs": ephemeral_job_crd,
    "imagelistpulljobs": image_list_pull_job_crd,
    "imagepulljobs": image_pull_job_crd,
    "nodeimages": node_image_crd,
    "nodepodprobes": node_pod_probe_crd,
    "persistentpodstates": persistent_pod_state_crd,
    "podprobemarkers": pod_probe_marker_crd,
    "podunavailablebudgets": pod_unavailable_budget_crd,
    "resourcedistributions": resource_distribution_crd,
    "sidecarsets": sidecar_set_crd,
    "statefulsets": stateful_set_crd,
    "workloadspreads": workload_spread_crd,
}
"""By plural."""

_CONVERSIONS: Final[tuple[Conversion, ...]] = (
    ADVANCED_CRON_JOB,
    BROADCAST_JOB,
    CLONE_SET,
    CONTAINER_RECREATE_REQUEST,
    DAEMON_SET,
    IMAGE_LIST_PULL_JOB,
    IMAGE_PULL_JOB,
    NODE_IMAGE,
    PERSISTENT_POD_STATE,
    POD_UNAVAILABLE_BUDGET,
    RESOURCE_DISTRIBUTION,
    SIDECAR_SET,
    STATEFUL_SET,
    UNITED_DEPLOYMENT,
    WORKLOAD_SPREAD,
)


def crds(conversion: Mapping[str, Any] | None = None) -> list[Document]:
    """The CustomResourceDefinitions of every kind there is, by name.

    `conversion` is the stanza of that name for the kinds with two versions (kube/crds.py: `webhook_conversion`);
    without it the API server only changes the apiVersion, which loses what is called differently.
    """
    found: list[Document] = orjson.loads(_made())
    for crd in found:
        if conversion is not None and len(crd["spec"]["versions"]) > 1:
            crd["spec"]["conversion"] = deep_copy(dict(conversion))
    return found


def crds_of(resources: Iterable[Resource]) -> list[Document]:
    """Those of some kinds alone, which is sooner made than all."""
    return [orjson.loads(_made_alone(plural)) for plural in sorted({one.plural for one in resources})]


@cache
def _made_alone(plural: str) -> bytes:
    return orjson.dumps(_CRDS[plural]())


@cache
def _made() -> bytes:
    """As JSON, so that every caller gets documents of its own for little."""
    found = [crd() for crd in _CRDS.values()]
    # These have specs of other kinds in them; kinds do not know each other, so their schemas are handed over.
    found += [
        advanced_cron_job_crd(
            broadcast_job_spec=structural_schema(BroadcastJobSpec),
            image_list_pull_job_spec=structural_schema(ImageListPullJobSpec),
        ),
        united_deployment_crd(
            clone_set_spec=structural_schema(CloneSetSpec),
            stateful_set_spec=structural_schema(StatefulSetSpec),
        ),
    ]
    return orjson.dumps(sorted(found, key=lambda crd: str(crd["metadata"]["name"])))


def conversions() -> Conversions:
    """How the objects of every kind with two versions are converted, by group and kind."""
    return {(each.group, each.kind): each for each in _CONVERSIONS}
