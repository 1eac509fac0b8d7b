"""Registration of the kind PodProbeMarker for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.podprobemarker.insight import INSIGHT
from pykruise.kinds.podprobemarker.plan import plan_marker
from pykruise.kinds.podprobemarker.pod_steps import STEPS
from pykruise.kinds.podprobemarker.shown import SHOWN
from pykruise.kinds.podprobemarker.snapshot import PodProbeMarkerSettings, read_snapshot
from pykruise.kinds.podprobemarker.types import POD_PROBE_MARKERS, PodProbeMarker
from pykruise.kinds.podprobemarker.validation import errors_of, find_stored_errors
from pykruise.kinds.podprobemarker.wakes import list_wakes
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import NODES, PODS
from pykruise.kube.schemas.crds import Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.probes.api import NODE_POD_PROBES, PodProbeMarkerSpec
from pykruise.pods.probes.views import read_marker_spec
from pykruise.pods.template.typed_parts import LABEL_SELECTOR
from pykruise.pods.workload.admission import SpecReviews
from pykruise.runtime.control import Control

_REVIEWS: Final = SpecReviews[PodProbeMarkerSpec](
    resource=POD_PROBE_MARKERS,
    versions=(POD_PROBE_MARKERS.version,),
    read_spec=lambda spec: read_marker_spec({"probes": [], **spec}),
    placeholders=("selector",),
    parts={"selector": LABEL_SELECTOR},
)
_validate: Final = _REVIEWS.build_validating_review(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object)
)

_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        **dict.fromkeys(
            ("spec.probes[].probe.httpGet.port", "spec.probes[].probe.tcpSocket.port"),
            "pods without this port are not probed, and the marker reports these pods",
        ),
        "spec.probes[].probe.tcpSocket.host": "the agent connects to this host",
    },
)

KIND = Kind(
    resource=POD_PROBE_MARKERS,
    versions=(Version(name="v1alpha1", root=PodProbeMarker, storage=True),),
    gates=("PodProbeMarkerGate", "KruiseDaemon"),
    settings=PodProbeMarkerSettings,
    reviews=Reviews(validating=lambda *_: _validate),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="podprobemarker",
            component="podprobemarker-controller",
            objects=MARKER_VIEWS,
            reads=lambda _: (POD_VIEWS, NODE_VIEWS, NODE_PROBES_VIEWS, MARKER_VIEWS),
            wakes=list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.marker,
            plan=plan_marker,
        ),
        _STORED,
    ),
    lends=(make_right(PODS, "create", subresource="exec"), make_right(PODS, "patch")),
    rights=(
        make_right(
            POD_PROBE_MARKERS, *READ, "patch", why="PodProbeMarker: to watch markers and set their finalizers"
        ),
        make_right(
            POD_PROBE_MARKERS,
            "patch",
            subresource="status",
            why="PodProbeMarker: to report the status of markers",
        ),
        make_right(NODE_POD_PROBES, *READ, "patch", why="PodProbeMarker: to write the probes of nodes"),
        make_right(
            PODS,
            *READ,
            "patch",
            why="PodProbeMarker: to read the pods to probe, and to mark pods on virtual nodes",
        ),
        make_right(NODES, *READ, why="PodProbeMarker: to check whether a node has an agent"),
    ),
    insight=INSIGHT,
    shown=SHOWN,
    pods=STEPS,
)
