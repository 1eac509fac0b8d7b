"""The admission step that places a new pod in the same topology as the previous pod with the same name.

pod ──▶ its controller ──▶ the PersistentPodState with its records ──▶ inject() ──▶ the changed pod, or no change

The step also changes pods of dry runs, because it writes no other object.
"""

from typing import Final

from pykruise.kinds.persistentpodstate.injection import inject
from pykruise.kinds.persistentpodstate.readers import RIGHTS, CachedStates, LiveStates, StateReader
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import STATE_VIEWS, choose_state
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.values.cel import Interests, build_selection, join_terms
from pykruise.kube.values.group_kinds import group_kind
from pykruise.kube.values.owners import controller_of
from pykruise.plans.pod_steps import PodReaders, PodSelection, PodSteps, StepContext, StepError
from pykruise.pods.workload.allowed_workloads import WhiteListError

_HAS_NAME: Final = (
    "has(object.metadata.name) && has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller == true)"
)
"""CEL expression: the pod has a controller and a name."""


class StateInjection:
    """The step of the webhook `/mutate-pod`."""

    def __init__(self, context: StepContext) -> None:
        self._reader: StateReader | None = context.reader

    def build_match_condition(self, interests: Interests) -> str:
        """Return a CEL expression that matches pods with a controller and a name, in namespaces with
        PersistentPodStates.
        """
        return join_terms(build_selection(interests, PERSISTENT_POD_STATES.kind), _HAS_NAME)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        owner = controller_of(pod)
        if self._reader is None or owner is None or not get_path(pod, "metadata", "name"):
            return None
        kind = group_kind(owner.api_version, owner.kind)
        try:
            if not await self._reader.is_supported(kind):
                return None
        except (WhiteListError, KubeError) as error:
            raise StepError(f"the white list of workloads cannot be read: {error}") from error
        try:
            states = await self._reader.list_states(request.namespace)
        except KubeError:
            return None  # as in OpenKruise: a pod on another node is better than no pod
        state = choose_state([state for state in states if state.target == (kind, owner.name)])
        return inject(pod, state) if state is not None else None


STEPS: Final = PodSteps(
    name="persistentpodstate",
    order=60,
    mutate=StateInjection,
    reads=PodReaders(
        live=lambda place: LiveStates(place.client, namespace=place.namespace, clock=place.clock),
        cached=lambda place: CachedStates(
            place.client(), namespace=place.namespace, clock=place.clock, rng=place.rng
        ),
    ),
    selects=PodSelection(views=STATE_VIEWS, announces=()),
    rights=RIGHTS,
)
