"""The kinds in v1alpha1: the objects, and for each kind a module with the types of its fields.

If a kind has the same fields in both versions, its module is the module of v1beta1.
"""

from pykruise.kinds.advancedcronjob import types as advancedcronjob
from pykruise.kinds.broadcastjob import types as broadcastjob
from pykruise.kinds.cloneset import v1alpha1 as cloneset
from pykruise.kinds.cloneset.v1alpha1 import CloneSetV1Alpha1 as CloneSet
from pykruise.kinds.containerrecreaterequest import v1alpha1 as containerrecreaterequest
from pykruise.kinds.containerrecreaterequest.v1alpha1 import (
    ContainerRecreateRequestV1Alpha1 as ContainerRecreateRequest,
)
from pykruise.kinds.daemonset import v1alpha1 as daemonset
from pykruise.kinds.daemonset.v1alpha1 import DaemonSetV1Alpha1 as DaemonSet
from pykruise.kinds.ephemeraljob import types as ephemeraljob
from pykruise.kinds.ephemeraljob.types import EphemeralJob
from pykruise.kinds.imagelistpulljob import types as imagelistpulljob
from pykruise.kinds.imagepulljob import types as imagepulljob
from pykruise.kinds.nodeimage import v1alpha1 as nodeimage
from pykruise.kinds.nodeimage.v1alpha1 import NodeImageV1Alpha1 as NodeImage
from pykruise.kinds.nodepodprobe import types as nodepodprobe
from pykruise.kinds.nodepodprobe.types import NodePodProbe
from pykruise.kinds.persistentpodstate import v1alpha1 as persistentpodstate
from pykruise.kinds.persistentpodstate.v1alpha1 import PersistentPodStateV1Alpha1 as PersistentPodState
from pykruise.kinds.podprobemarker import types as podprobemarker
from pykruise.kinds.podprobemarker.types import PodProbeMarker
from pykruise.kinds.podunavailablebudget import v1alpha1 as podunavailablebudget
from pykruise.kinds.podunavailablebudget.v1alpha1 import PodUnavailableBudgetV1Alpha1 as PodUnavailableBudget
from pykruise.kinds.resourcedistribution import v1alpha1 as resourcedistribution
from pykruise.kinds.resourcedistribution.v1alpha1 import ResourceDistributionV1Alpha1 as ResourceDistribution
from pykruise.kinds.sidecarset import v1alpha1 as sidecarset
from pykruise.kinds.sidecarset.v1alpha1 import SidecarSetV1Alpha1 as SidecarSet
from pykruise.kinds.statefulset import v1alpha1 as statefulset
from pykruise.kinds.statefulset.v1alpha1 import StatefulSetV1Alpha1 as StatefulSet
from pykruise.kinds.uniteddeployment import v1alpha1 as uniteddeployment
from pykruise.kinds.uniteddeployment.v1alpha1 import UnitedDeploymentV1Alpha1 as UnitedDeployment
from pykruise.kinds.workloadspread import v1alpha1 as workloadspread
from pykruise.kinds.workloadspread.v1alpha1 import WorkloadSpreadV1Alpha1 as WorkloadSpread

__all__ = [
    "AdvancedCronJob",
    "BroadcastJob",
    "CloneSet",
    "ContainerRecreateRequest",
    "DaemonSet",
    "EphemeralJob",
    "ImageListPullJob",
    "ImagePullJob",
    "NodeImage",
    "NodePodProbe",
    "PersistentPodState",
    "PodProbeMarker",
    "PodUnavailableBudget",
    "ResourceDistribution",
    "SidecarSet",
    "StatefulSet",
    "UnitedDeployment",
    "WorkloadSpread",
    "advancedcronjob",
    "broadcastjob",
    "cloneset",
    "containerrecreaterequest",
    "daemonset",
    "ephemeraljob",
    "imagelistpulljob",
    "imagepulljob",
    "nodeimage",
    "nodepodprobe",
    "persistentpodstate",
    "podprobemarker",
    "podunavailablebudget",
    "resourcedistribution",
    "sidecarset",
    "statefulset",
    "uniteddeployment",
    "workloadspread",
]


class AdvancedCronJob(advancedcronjob.AdvancedCronJob, frozen=True, kw_only=True):
    """Creates Jobs, BroadcastJobs or ImageListPullJobs on a schedule."""

    api_version: str = "apps.kruise.io/v1alpha1"


class BroadcastJob(broadcastjob.BroadcastJob, frozen=True, kw_only=True):
    """Runs one pod to completion on every node that the pod can run on."""

    api_version: str = "apps.kruise.io/v1alpha1"


class ImageListPullJob(imagelistpulljob.ImageListPullJob, frozen=True, kw_only=True):
    """Pulls several images to nodes before pods on these nodes need the images."""

    api_version: str = "apps.kruise.io/v1alpha1"


class ImagePullJob(imagepulljob.ImagePullJob, frozen=True, kw_only=True):
    """Pulls an image to nodes before pods on these nodes need the image."""

    api_version: str = "apps.kruise.io/v1alpha1"
