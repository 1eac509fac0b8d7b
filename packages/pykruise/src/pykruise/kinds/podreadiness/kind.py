"""Registration of pod readiness for the rest of the program: it adds the readiness gate KruisePodReady to pods and sets
the condition of new pods.

KIND ──▶ pod admission, controllers (plans/kind.py)
"""

from pykruise.kinds.podreadiness.plan import PodReadinessSnapshot, lacks_condition, plan_readiness
from pykruise.kinds.podreadiness.pod_steps import STEPS, PodReadinessSettings
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import wake_itself


async def read_snapshot(pod: PodView, read: Read[PodReadinessSettings]) -> PodReadinessSnapshot:
    """Return the snapshot of this pod at the current time."""
    return PodReadinessSnapshot(pod=pod, now=read.now())


KIND = Kind(
    resource=PODS,
    settings=PodReadinessSettings,
    control=Control(
        name="podreadiness",
        component="pod-readiness-controller",
        objects=POD_VIEWS,
        wakes=lambda _: (wake_itself(POD_VIEWS, when=lacks_condition),),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.pod,
        plan=plan_readiness,
        is_current=is_same_object,
    ),
    pods=STEPS,
)
