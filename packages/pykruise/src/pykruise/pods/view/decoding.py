"""Decode a pod's JSON into its view.

bytes of a list or watch ──▶ PodProjector ──▶ PodView

Pure, except for a bounded table of values that many pods share (labels, containers, conditions). Ten thousand pods of
one owner differ only in a name, a uid, an id and a few times, and only these are stored per pod.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykruise.kube.cache.remembering import SharedValues, register_limit
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import LAST_APPLIED
from pykruise.pods.lifecycle.launch_order import COMPLETED_ANNOTATION
from pykruise.pods.lifecycle.sort_keys import parse_deletion_cost, update_rank
from pykruise.pods.mounts import MOST_NAMED, NOT_CREATED, CreatingView, mounts_of
from pykruise.pods.template.node_placement import NodeRequirements, requirements_of
from pykruise.pods.view import keys
from pykruise.pods.view.containers import (
    IMAGE_FAILURES,
    ContainerFacts,
    ContainerStatusFacts,
    ContainerText,
    FactsTable,
    RawPort,
    RawResources,
    RawStatus,
    Resources,
    list_named_ports,
    read_status_facts,
    resources_of,
)
from pykruise.pods.view.ephemeral import decode_ephemeral_views
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.view.pod_view import SERVING_STATES, ConditionView, ControllerView, PodView

NEEDED_ANNOTATIONS: Final = (
    keys.STATE_TIME_ANNOTATION,
    keys.DELETION_COST_ANNOTATION,
    keys.MATCHED_SPREAD_ANNOTATION,
    keys.INJECTED_STATE_ANNOTATION,
    keys.IN_PLACE_STATE_ANNOTATION,
    keys.IN_PLACE_GRACE_ANNOTATION,
    keys.LEGACY_IN_PLACE_STATE_ANNOTATION,
    keys.LEGACY_IN_PLACE_GRACE_ANNOTATION,
    keys.RELATED_PUB_ANNOTATION,
    keys.LEGACY_RELATED_PUB_ANNOTATION,
    keys.NO_PROTECT_ANNOTATION,
    keys.EVICTION_REQUESTED_ANNOTATION,
    keys.SUCCESSOR_OF_ANNOTATION,
    keys.REPLACES_ANNOTATION,
    COMPLETED_ANNOTATION,
)
"""Annotations that a view keeps. A pod with an in-place update also keeps the annotations that decide its completion.
A pod with sidecars keeps all annotations except the one that is as large as the pod, because SidecarSets may change
any annotation.
"""

SHARED_VALUES: Final = register_limit("values that pods share", entries=100_000, bytes_each=256)
"""Maximum size of a projector's table, which keeps values as long as a view has them."""


class _Owner(msgspec.Struct, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Gate(msgspec.Struct, gc=False, rename="camel"):
    condition_type: str = ""


class _InitContainer(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    image: str | None = None
    restart_policy: str | None = None
    ports: tuple[RawPort, ...] | None = None


class _SchedulingGroup(msgspec.Struct, gc=False, rename="camel"):
    pod_group_name: str | None = None


class _SchedulingGate(msgspec.Struct, gc=False):
    name: str = ""


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str | None = None
    affinity: msgspec.Raw = msgspec.Raw()
    containers: tuple[ContainerText, ...] | None = None
    init_containers: tuple[_InitContainer, ...] | None = None
    ephemeral_containers: msgspec.Raw = msgspec.Raw()
    readiness_gates: tuple[_Gate, ...] | None = None
    restart_policy: str | None = None
    scheduling_group: _SchedulingGroup | None = None
    resources: RawResources | None = None
    image_pull_secrets: msgspec.Raw = msgspec.Raw()
    volumes: msgspec.Raw = msgspec.Raw()
    node_selector: msgspec.Raw = msgspec.Raw()
    tolerations: msgspec.Raw = msgspec.Raw()
    scheduling_gates: tuple[_SchedulingGate, ...] | None = None


class _SecretRef(msgspec.Struct, gc=False):
    name: str = ""


class _ClaimSource(msgspec.Struct, gc=False, rename="camel"):
    claim_name: str = ""


class _ImageSource(msgspec.Struct, gc=False):
    reference: str = ""


class _Volume(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    image: _ImageSource | None = None


class _Field(msgspec.Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class _NodeTerm(msgspec.Struct, gc=False, rename="camel"):
    match_fields: tuple[_Field, ...] | None = None


class _NodeTerms(msgspec.Struct, gc=False):
    terms: tuple[_NodeTerm, ...] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class _NodeAffinity(msgspec.Struct, gc=False):
    required: _NodeTerms | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(msgspec.Struct, gc=False, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _Condition(msgspec.Struct, gc=False, rename="camel"):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    start_time: str | None = None
    resize: str | None = None
    resources: RawResources | None = None
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[RawStatus, ...] | None = None
    init_container_statuses: tuple[RawStatus, ...] | None = None
    ephemeral_container_statuses: msgspec.Raw = msgspec.Raw()


class _Pod(msgspec.Struct, gc=False, rename="camel"):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Pod).decode
_decode_volumes = msgspec.json.Decoder(tuple[_Volume, ...] | None).decode
_decode_secrets = msgspec.json.Decoder(tuple[_SecretRef, ...] | None).decode
_decode_affinity = msgspec.json.Decoder(_Affinity | None).decode
_NAMED_PODS: Final = ("apps.kruise.io", "StatefulSet")
_PLACED_PODS: Final = ("apps.kruise.io", "BroadcastJob")
_NO_SPEC: Final = _Spec()
_POLICIES: Final = {"Never": "Never", "OnFailure": "OnFailure"}
_NO_STATUS: Final = _Status()
_RESIZE_PENDING: Final = ("Deferred", "Infeasible")
"""Values of `status.resize` with which kubelets before 1.33 report what later kubelets report in a condition."""
_GRACE: Final = frozenset({keys.IN_PLACE_GRACE_ANNOTATION, keys.LEGACY_IN_PLACE_GRACE_ANNOTATION})
_IN_PLACE: Final = _GRACE | {keys.IN_PLACE_STATE_ANNOTATION, keys.LEGACY_IN_PLACE_STATE_ANNOTATION}
LABELS_OF_ONE_POD: Final = frozenset(
    {keys.INSTANCE_ID_LABEL, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}
)
"""Labels whose values differ between all pods of a workload."""


class PodProjector:
    """Creates views that share equal values; one projector per cache.

    Call it with the JSON text of a pod. Raises msgspec.DecodeError when the text is not a pod.
    """

    def __init__(self, *, shared_values: int = SHARED_VALUES) -> None:
        self._shared = SharedValues(entries=shared_values)
        self._facts = FactsTable()

    def __call__(self, raw: bytes | msgspec.Raw) -> PodView:
        self._shared.trim()
        share = self._shared.share
        pod = _decode(raw)
        meta = pod.metadata
        spec = pod.spec or _NO_SPEC
        status = pod.status or _NO_STATUS

        labels = self._share_labels(meta.labels) if meta.labels else {}
        containers = self._share_containers(spec.containers) if spec.containers else ()
        annotations = _select_annotations(meta.annotations, containers) if meta.annotations else {}
        state = labels.get(keys.STATE_LABEL, "")
        revision = shorten_hash(labels.get(keys.REVISION_LABEL, ""))
        node_name = spec.node_name or ""
        phase = status.phase or ""
        statuses = status.container_statuses or ()
        init_statuses = status.init_container_statuses or ()
        gates = tuple([gate.condition_type for gate in spec.readiness_gates]) if spec.readiness_gates else ()
        reported = status.conditions or ()
        if status.resize in _RESIZE_PENDING:
            reported = (*reported, _Condition("PodResizePending", "True", status.resize))
        conditions = self._share_conditions(reported) if reported else ()
        ready, ready_since, held = _parse_readiness(reported)
        # A condition that is not one of the pod's readiness gates does not hold the pod back.
        is_ready = ready and phase == "Running" and not (held and keys.IN_PLACE_READY in gates)
        created_at = parse_time(meta.creation_timestamp) if meta.creation_timestamp else None
        controller = self._share_controller(meta.owner_references) if meta.owner_references else None
        is_deleting = meta.deletion_timestamp is not None
        lacks_image = _lacks_image((*init_statuses, *statuses))
        return PodView(
            namespace=share(meta.namespace, meta.namespace),
            name=meta.name,
            uid=meta.uid,
            resource_version=int(meta.resource_version or 0),
            generation=meta.generation,
            labels=labels,
            annotations=annotations,
            finalizers=share(meta.finalizers, meta.finalizers) if meta.finalizers else (),
            controller=controller,
            created_at=created_at,
            is_deleting=is_deleting,
            ends_at=parse_time(meta.deletion_timestamp) if meta.deletion_timestamp else None,
            node_name=share(node_name, node_name),
            wanted_node="" if node_name else _find_wanted_node(spec.affinity),
            scheduling_gates=()
            if node_name or not spec.scheduling_gates
            else tuple([gate.name for gate in spec.scheduling_gates]),
            containers=containers,
            sidecars=self._share_sidecars(spec.init_containers) if spec.init_containers else (),
            readiness_gates=share(gates, gates),
            restart_policy=_POLICIES.get(spec.restart_policy or "", "Always"),
            resources=self._share_resources(spec.resources) if spec.resources is not None else None,
            resources_in_force=self._share_resources(status.resources)
            if status.resources is not None
            else None,
            claim_volumes=_find_claim_volumes(spec.volumes, controller),
            pod_group=share(group, group)
            if spec.scheduling_group and (group := spec.scheduling_group.pod_group_name)
            else "",
            asks_of_nodes=_find_node_requirements(spec, controller),
            phase=share(phase, phase),
            ip=status.pod_ip or "",
            conditions=conditions,
            ready_since=ready_since,
            container_statuses=tuple([self._share_status(status) for status in statuses]),
            init_statuses=tuple([self._share_status(status) for status in init_statuses]),
            creating=_find_creation(spec, status) if phase == "Pending" and node_name else None,
            pull_secrets=_find_pull_secrets(spec) if lacks_image else (),
            image_volumes=_find_image_volumes(spec.volumes) if lacks_image else (),
            ephemeral=decode_ephemeral_views(spec.ephemeral_containers, status.ephemeral_container_statuses)
            if len(spec.ephemeral_containers)
            else (),
            state=state,
            revision=share(revision, revision),
            instance_id=labels.get(keys.INSTANCE_ID_LABEL, ""),
            is_active=not is_deleting and phase != "Succeeded" and phase != "Failed",
            is_ready=is_ready,
            is_serving=is_ready and state in SERVING_STATES,
            is_never_ready=not ready and _is_never_ready(status),
            is_specified_delete=keys.SPECIFIED_DELETE_LABEL in labels,
            is_in_grace=_is_in_grace(annotations) if annotations else False,
            open_gates=_find_open_gates(gates, conditions, annotations) if gates else (),
            may_be_updating=state == "Updating" or _may_be_updating(gates, conditions, annotations),
            deletion_cost=parse_deletion_cost(annotations.get(keys.DELETION_COST_ANNOTATION))
            if annotations
            else 0,
            rank=update_rank(
                name=meta.name,
                node_name=node_name,
                phase=phase,
                ready=ready,
                ready_since=ready_since,
                restarts=max([container.restart_count for container in statuses]) if statuses else 0,
                init_restarts=_count_init_restarts(spec, init_statuses) if init_statuses else 0,
                created_at=created_at,
            ),
        )

    def _share_resources(self, raw: RawResources) -> Resources:
        resources = resources_of(raw)
        shared: Resources = self._shared.share(resources, resources)
        return shared

    def _share_controller(self, owners: tuple[_Owner, ...]) -> ControllerView | None:
        for owner in owners:
            if owner.controller:
                texts = (_Owner, owner.api_version, owner.kind, owner.name, owner.uid)
                view: ControllerView | None = self._shared.values.get(texts)
                if view is None:
                    group, _, _ = owner.api_version.rpartition("/")
                    view = ControllerView(group, owner.kind, owner.name, owner.uid)
                    self._shared.values[texts] = view
                return view
        return None

    def _share_labels(self, labels: dict[str, str]) -> dict[str, str]:
        share = self._shared.share
        return {
            share(key, key): value if key in LABELS_OF_ONE_POD else share(value, value)
            for key, value in labels.items()
        }

    def _share_containers(self, texts: tuple[ContainerText, ...]) -> tuple[ContainerFacts, ...]:
        containers = tuple([self._facts(text) for text in texts])
        result: tuple[ContainerFacts, ...] = self._shared.share(containers, containers)
        return result

    def _share_sidecars(self, init_containers: tuple[_InitContainer, ...]) -> tuple[ContainerFacts, ...]:
        sidecars = tuple(
            [
                ContainerFacts(
                    init_container.name,
                    init_container.image or "",
                    named_ports=list_named_ports(init_container.ports),
                )
                for init_container in init_containers
                if init_container.restart_policy == "Always"
            ]
        )
        shared: tuple[ContainerFacts, ...] = self._shared.share(sidecars, sidecars)
        return shared

    def _share_status(self, raw: RawStatus) -> ContainerStatusFacts:
        """Share only parts of the status, because a whole status contains the container's id, so no two are equal."""
        share = self._shared.share
        state = raw.state
        if state is not None and state.waiting is None and state.terminated is None and raw.resources is None:
            return ContainerStatusFacts(
                share(raw.name, raw.name) or "",
                share(raw.image, raw.image) or "",
                share(raw.image_id, raw.image_id) or "",
                raw.container_id or "",
                raw.restart_count,
                raw.ready,
                last_exit_code=raw.last_exit_code if raw.restart_count else None,
            )
        facts = read_status_facts(raw)
        return ContainerStatusFacts(
            share(facts.name, facts.name),
            share(facts.image, facts.image),
            share(facts.image_id, facts.image_id),
            facts.container_id,
            facts.restart_count,
            facts.ready,
            share(facts.waiting, facts.waiting),
            share(facts.resources, facts.resources),
            facts.exit_code,
            share(facts.lacks, facts.lacks),
            facts.last_exit_code,
        )

    def _share_conditions(self, conditions: tuple[_Condition, ...]) -> tuple[ConditionView, ...]:
        """Share the conditions without times: most pods have equal conditions. A lookup costs less than building the
        conditions.
        """
        texts = tuple(
            [
                (condition.type, condition.status, condition.reason, condition.message)
                for condition in conditions
            ]
        )
        views: tuple[ConditionView, ...] | None = self._shared.values.get(texts)
        if views is None:
            views = tuple(
                [
                    ConditionView(
                        condition.type, condition.status, condition.reason or "", condition.message or ""
                    )
                    for condition in conditions
                ]
            )
            self._shared.values[texts] = views
        return views


def project_pod(raw: bytes | msgspec.Raw) -> PodView:
    """Decode a single view. A cache uses a `PodProjector`, whose views share equal values."""
    return PodProjector()(raw)


def _select_annotations(
    annotations: dict[str, str], containers: tuple[ContainerFacts, ...]
) -> dict[str, str]:
    if keys.SIDECARSET_LIST_ANNOTATION in annotations:
        return {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    result: dict[str, str] = {key: annotations[key] for key in NEEDED_ANNOTATIONS if key in annotations}
    if keys.IN_PLACE_STATE_ANNOTATION in result or keys.LEGACY_IN_PLACE_STATE_ANNOTATION in result:
        judged_by = {
            keys.RUNTIME_META_ANNOTATION,
            *(
                source.key
                for container in containers
                for source in container.env_sources
                if source.field == "annotations"
            ),
        }
        result |= {key: annotations[key] for key in judged_by if key in annotations}
    return result


def _is_never_ready(status: _Status) -> bool:
    """Whether the status proves that the pod and its containers have never been ready.

    A kubelet writes startTime and the conditions Ready and ContainersReady, both False, when it accepts the pod, at the
    same moment. A condition changes its time only with its status, so a pod that was ready once has a later time. A pod
    that no kubelet has accepted has neither startTime nor these conditions.
    """
    conditions = {condition.type: condition for condition in status.conditions or ()}
    if status.start_time is None:
        return "Ready" not in conditions and not status.container_statuses
    started_at = parse_time(status.start_time)
    for kind in ("Ready", "ContainersReady"):
        condition = conditions.get(kind)
        if condition is None or condition.status != "False" or not condition.last_transition_time:
            return False
        if parse_time(condition.last_transition_time) > started_at:
            return False
    return True


def _parse_readiness(conditions: tuple[_Condition, ...]) -> tuple[bool, Instant | None, bool]:
    """Whether Ready is True, the time of its last change, and whether an in-place update holds the pod back."""
    ready, since, held = False, None, False
    for condition in conditions:
        if condition.type == "Ready":
            ready = condition.status == "True"
            since = condition.last_transition_time
        elif condition.type == keys.IN_PLACE_READY:
            held = condition.status != "True"
    return ready, parse_time(since) if since else None, held


def _find_open_gates(
    gates: tuple[str, ...], conditions: tuple[ConditionView, ...], annotations: Mapping[str, str]
) -> tuple[str, ...]:
    """This project's gates that still need their condition: InPlaceUpdateReady must be True without reason and message,
    and KruisePodReady must exist. A running in-place update sets the condition of its own gate.
    """
    in_place = kruise = None
    for condition in conditions:
        if condition.type == keys.IN_PLACE_READY:
            in_place = condition
        elif condition.type == keys.KRUISE_POD_READY:
            kruise = condition
    lacks_in_place = in_place is None or in_place.status != "True" or in_place.reason or in_place.message
    missing: tuple[str, ...] = ()
    if lacks_in_place and keys.IN_PLACE_READY in gates and _IN_PLACE.isdisjoint(annotations):
        missing = (keys.IN_PLACE_READY,)
    if kruise is None and keys.KRUISE_POD_READY in gates:
        missing = (*missing, keys.KRUISE_POD_READY)
    return missing


def _may_be_updating(
    gates: tuple[str, ...], conditions: tuple[ConditionView, ...], annotations: Mapping[str, str]
) -> bool:
    """Whether an in-place update keeps the pod out of service or in its grace period, or has changes left."""
    if _IN_PLACE.isdisjoint(annotations):
        return False
    if not _GRACE.isdisjoint(annotations):
        return True
    state = annotations.get(keys.IN_PLACE_STATE_ANNOTATION) or annotations.get(
        keys.LEGACY_IN_PLACE_STATE_ANNOTATION, ""
    )
    if '"nextContainer' in state:
        return True
    if keys.IN_PLACE_READY not in gates:
        return False
    for condition in conditions:
        if condition.type == keys.IN_PLACE_READY:
            return condition.status != "True" or bool(condition.reason or condition.message)
    return True


def _find_wanted_node(affinity: msgspec.Raw) -> str:
    """Node of the first required node affinity term that names one node. DaemonSets place pods in this way."""
    if not bytes(affinity):
        return ""
    try:
        result = _decode_affinity(affinity)
    except msgspec.ValidationError:
        return ""
    required = result.node_affinity.required if result and result.node_affinity else None
    for term in (required.terms if required else None) or ():
        for field in term.match_fields or ():
            if field.key == "metadata.name" and field.operator == "In" and field.values:
                return field.values[0] if len(field.values) == 1 else ""
    return ""


def _find_creation(spec: _Spec, status: _Status) -> CreatingView | None:
    """State of a pod without created containers; None if a container was created, the volumes are mounted, or the
    volumes need no objects and the kubelet has reported the pod.
    """
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    if any(status.state is None or not _is_not_created(status) for status in statuses):
        return None
    conditions = {condition.type: condition for condition in status.conditions or ()}
    scheduled, prepared = conditions.get("PodScheduled"), conditions.get("PodReadyToStartContainers")
    if prepared is not None and prepared.status == "True":
        return None
    mounts = mounts_of(spec.volumes)
    if scheduled is None or not scheduled.last_transition_time or not (mounts or not statuses):
        return None
    return CreatingView(parse_time(scheduled.last_transition_time), mounts, is_unseen=not statuses)


def _lacks_image(statuses: tuple[RawStatus, ...]) -> bool:
    for status in statuses:
        waiting = status.state.waiting if status.state is not None else None
        if waiting is not None and waiting.reason in IMAGE_FAILURES:
            return True
    return False


def _find_image_volumes(volumes: msgspec.Raw) -> tuple[tuple[str, str], ...]:
    try:
        decoded = _decode_volumes(volumes) if len(volumes) else None
    except msgspec.ValidationError:
        decoded = None
    images = ((volume.name, volume.image) for volume in (decoded or ())[:MOST_NAMED])
    return tuple((name, image.reference) for name, image in images if image is not None and image.reference)


def _find_pull_secrets(spec: _Spec) -> tuple[str, ...]:
    """First few names only, so that a view stays small."""
    if not bytes(spec.image_pull_secrets):
        return ()
    try:
        secrets = _decode_secrets(spec.image_pull_secrets) or ()
    except msgspec.ValidationError:
        return ()
    return tuple([secret.name for secret in secrets[:MOST_NAMED] if secret.name])


def _is_not_created(status: RawStatus) -> bool:
    waiting = status.state.waiting if status.state is not None else None
    return waiting is not None and waiting.reason in NOT_CREATED


def _find_claim_volumes(
    volumes: msgspec.Raw, controller: ControllerView | None
) -> tuple[tuple[str, str], ...]:
    """Claim volumes of an Advanced StatefulSet's pod; empty for other pods."""
    if controller is None or (controller.group, controller.kind) != _NAMED_PODS or not bytes(volumes):
        return ()
    try:
        result = _decode_volumes(volumes)
    except msgspec.ValidationError:
        return ()
    return tuple(
        [
            (item.name, item.persistent_volume_claim.claim_name)
            for item in result or ()
            if item.persistent_volume_claim is not None
        ]
    )


def _find_node_requirements(spec: _Spec, controller: ControllerView | None) -> NodeRequirements | None:
    """Node requirements of a BroadcastJob's pod, which are checked while it runs; None for other pods."""
    if controller is None or (controller.group, controller.kind) != _PLACED_PODS:
        return None
    asked = {"nodeSelector": spec.node_selector, "tolerations": spec.tolerations, "affinity": spec.affinity}
    return requirements_of({name: msgspec.json.decode(raw) for name, raw in asked.items() if bytes(raw)})


def _is_in_grace(annotations: Mapping[str, str]) -> bool:
    return any(annotations.get(name) for name in _GRACE)


def _count_init_restarts(spec: _Spec, statuses: tuple[RawStatus, ...]) -> int:
    """Greatest restart count of the native sidecars."""
    sidecars = {
        container.name for container in spec.init_containers or () if container.restart_policy == "Always"
    }
    return max([status.restart_count for status in statuses if status.name in sidecars], default=0)
