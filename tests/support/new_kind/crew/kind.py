"""Registration of the kind Crew for the rest of the program.

KIND ──▶ definitions, conversion, roles, flags, admission (of pods too), controllers, doctor, explain, plan, simulate
"""

from pykruise.kinds.crew.admission import validating
from pykruise.kinds.crew.conversion import CONVERSION
from pykruise.kinds.crew.insight import INSIGHT
from pykruise.kinds.crew.plan import plan_crew
from pykruise.kinds.crew.pod_steps import STEPS
from pykruise.kinds.crew.shown import SHOWN
from pykruise.kinds.crew.snapshot import CREW_VIEWS, Settings, snapshot
from pykruise.kinds.crew.types import CREWS, Crew, CrewV1Alpha1
from pykruise.kinds.crew.validation import errors_of
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import Kind, list_workload_rights, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.settings import Gate
from pykruise.runtime.control import Control
from pykruise.runtime.wakes import wake_itself, wake_owner

__all__ = ["KIND"]

_COLUMNS = (Column("SIZE", "integer", ".status.size"),)

_STORED = StoredSpec(errors=errors_of)

KIND = Kind(
    resource=CREWS,
    versions=make_two_versions(Crew, CrewV1Alpha1, columns=_COLUMNS),
    conversion=CONVERSION,
    gates=("CrewGate",),
    own_gates={"CrewGate": Gate(True, "beta", "Crew")},
    settings=Settings,
    reviews=Reviews(validating=lambda settings, _: validating(settings)),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="crew",
            component="crew-controller",
            objects=CREW_VIEWS,
            reads=lambda _: (POD_VIEWS,),
            wakes=lambda _: (wake_itself(CREW_VIEWS), wake_owner(POD_VIEWS, CREWS)),
            snapshot=snapshot,
            object_of=lambda snapshot: snapshot.crew,
            plan=plan_crew,
        ),
        _STORED,
    ),
    rights=list_workload_rights(CREWS),
    insight=INSIGHT,
    shown=SHOWN,
    pods=STEPS,
)
