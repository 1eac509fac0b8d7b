"""The kinds in v1beta1: the objects, and for each kind a module with the types of its fields.

from pykruise.models import v1beta1 as kruise

kruise.cloneset.UpdateStrategy(rolling_update=kruise.cloneset.RollingUpdate(partition=2))
"""

from pykruise.kinds.advancedcronjob import types as advancedcronjob
from pykruise.kinds.advancedcronjob.types import AdvancedCronJob
from pykruise.kinds.broadcastjob import types as broadcastjob
from pykruise.kinds.broadcastjob.types import BroadcastJob
from pykruise.kinds.cloneset import types as cloneset
from pykruise.kinds.cloneset.types import CloneSet
from pykruise.kinds.containerrecreaterequest import types as containerrecreaterequest
from pykruise.kinds.containerrecreaterequest.types import ContainerRecreateRequest
from pykruise.kinds.daemonset import types as daemonset
from pykruise.kinds.daemonset.types import DaemonSet
from pykruise.kinds.imagelistpulljob import types as imagelistpulljob
from pykruise.kinds.imagelistpulljob.types import ImageListPullJob
from pykruise.kinds.imagepulljob import types as imagepulljob
from pykruise.kinds.imagepulljob.types import ImagePullJob
from pykruise.kinds.nodeimage import types as nodeimage
from pykruise.kinds.nodeimage.types import NodeImage
from pykruise.kinds.persistentpodstate import types as persistentpodstate
from pykruise.kinds.persistentpodstate.types import PersistentPodState
from pykruise.kinds.podunavailablebudget import types as podunavailablebudget
from pykruise.kinds.podunavailablebudget.types import PodUnavailableBudget
from pykruise.kinds.resourcedistribution import types as resourcedistribution
from pykruise.kinds.resourcedistribution.types import ResourceDistribution
from pykruise.kinds.sidecarset import types as sidecarset
from pykruise.kinds.sidecarset.types import SidecarSet
from pykruise.kinds.statefulset import types as statefulset
from pykruise.kinds.statefulset.types import StatefulSet
from pykruise.kinds.uniteddeployment import types as uniteddeployment
from pykruise.kinds.uniteddeployment.types import UnitedDeployment
from pykruise.kinds.workloadspread import types as workloadspread
from pykruise.kinds.workloadspread.types import WorkloadSpread

__all__ = [
    "AdvancedCronJob",
    "BroadcastJob",
    "CloneSet",
    "ContainerRecreateRequest",
    "DaemonSet",
    "ImageListPullJob",
    "ImagePullJob",
    "NodeImage",
    "PersistentPodState",
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
    "imagelistpulljob",
    "imagepulljob",
    "nodeimage",
    "persistentpodstate",
    "podunavailablebudget",
    "resourcedistribution",
    "sidecarset",
    "statefulset",
    "uniteddeployment",
    "workloadspread",
]
