"""Registration of the kind NodePodProbe for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, doctor, explain, plan (plans/kind.py)
"""

from pykruise.kinds.nodepodprobe.insight import INSIGHT
from pykruise.kinds.nodepodprobe.plan import plan_node_probes
from pykruise.kinds.nodepodprobe.shown import SHOWN
from pykruise.kinds.nodepodprobe.snapshot import NodePodProbeSettings, make_absent_view, read_snapshot
from pykruise.kinds.nodepodprobe.types import NODE_POD_PROBES, NodePodProbe
from pykruise.kinds.nodepodprobe.wakes import list_wakes
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import NODES, PODS
from pykruise.kube.schemas.crds import Version
from pykruise.plans.kind import Kind
from pykruise.plans.views import MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from pykruise.runtime.control import Control

KIND = Kind(
    resource=NODE_POD_PROBES,
    versions=(Version(name="v1alpha1", root=NodePodProbe, storage=True),),
    gates=("PodProbeMarkerGate", "KruiseDaemon"),
    settings=NodePodProbeSettings,
    control=Control(
        name="nodepodprobe",
        component="nodepodprobe-controller",
        objects=NODE_PROBES_VIEWS,
        reads=lambda _: (POD_VIEWS, NODE_VIEWS, MARKER_VIEWS),
        wakes=list_wakes,
        absent=make_absent_view,
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.node_probes,
        plan=plan_node_probes,
    ),
    rights=(
        make_right(
            NODE_POD_PROBES,
            *READ,
            "create",
            "patch",
            "delete",
            why="NodePodProbe: to create a NodePodProbe for every node",
        ),
        make_right(
            POD_PROBE_MARKERS,
            *READ,
            why="NodePodProbe: to read which labels and annotations a probe result sets",
        ),
        make_right(NODES, *READ, why="NodePodProbe: to watch nodes"),
        make_right(
            PODS, *READ, "patch", why="NodePodProbe: to write probe results to pods as labels and annotations"
        ),
        make_right(
            PODS,
            "patch",
            subresource="status",
            why="NodePodProbe: to write probe results to pods as conditions",
        ),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
