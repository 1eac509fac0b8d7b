"""Rules of apps workloads, ReplicationControllers and PodTemplates, and of the workloads' ControllerRevisions.

    a workload as sent ──▶ …Strategy ──▶ a workload as stored, or Causes

Pure. pod_spec.py fills the defaults of the template's pod spec, and kube/pod_rules checks it. This module checks the
fields around the template, that the selector matches the template, and that immutable fields do not change.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    format_go_string_map,
    format_shown,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_at_most_100_percent,
    check_immutable,
    check_int_or_percent,
    check_not_negative,
    check_selector,
    format_go_int_or_string,
    format_go_selector,
    read_int_or_percent,
    selects,
)
from pykruise.kube.pod_rules.pods import check_pod_template
from pykruise.kube.schemas.releases import Release
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.sandbox.apiserver.builtin.pod_spec import fill_claim_spec, fill_pod_spec
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy, keep

Doc = Mapping[str, Any]
_NO_MATCH: Final = "`selector` does not match template `labels`"


class _WorkloadStrategy(BuiltinStrategy):
    """Common strategy of workloads: a status subresource, a generation, a template with defaults."""

    tracks_generation = True
    has_status = True

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        template = spec.get("template")
        if template is not None:
            fill_pod_spec(template.setdefault("spec", {}))
        self.fill(spec)
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = self.build_empty_status()
        return doc

    def build_empty_status(self) -> Document:
        """Return the status that the server writes for a new object."""
        return {}

    def fill(self, spec: Document) -> None:
        """Fill the defaults of the kind's own fields."""


class DeploymentStrategy(_WorkloadStrategy):
    """Deployments."""

    def fill(self, spec: Document) -> None:
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        super().prepare_status_update(new, old)
        keep(new["metadata"], old["metadata"], "labels")
        return new

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        # A change of annotations is a change of the spec, too, because they are copied to the replica sets.
        before, after = ((doc.get("metadata") or {}).get("annotations") or None for doc in (old, new))
        return not is_same(new.get("spec"), old.get("spec")) or not is_same(before, after)

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_deployment(doc.get("spec") or {}, self.release))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*self.validate_create(new), *_check_selector_kept(new, old)]

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        status = new.get("status") or {}
        causes = list(
            _check_counts(
                status,
                "status",
                ("updatedReplicas", "readyReplicas", "availableReplicas"),
                ready="readyReplicas",
            )
        )
        return [*causes, *_check_collisions(new, old)]


def _check_deployment(spec: Doc, release: Release) -> Causes:
    yield from check_not_negative(spec.get("replicas"), "spec.replicas")
    yield from _check_selector_and_template(spec, "deployment", "invalid label selector", release)
    strategy = spec.get("strategy") or {}
    rolling, path = strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    match strategy.get("type"):
        case "Recreate":
            if rolling is not None:
                yield make_forbidden_error(path, "may not be specified when strategy `type` is 'Recreate'")
        case "RollingUpdate":
            yield from _check_rolling_deployment(rolling or {}, path)
        case other:
            rolling_text = "(*apps.RollingUpdateDeployment)(nil)"
            text = f'apps.DeploymentStrategy{{Type:"{other}", RollingUpdate:{rolling_text}}}'
            yield make_not_supported_error("spec.strategy", other, ("Recreate", "RollingUpdate"), text=text)
    yield from check_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from check_not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        yield from check_not_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline <= spec.get("minReadySeconds", 0):
            detail = "must be greater than minReadySeconds"
            yield make_invalid_error("spec.progressDeadlineSeconds", deadline, detail)


def _check_rolling_deployment(rolling: Doc, path: str) -> Causes:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from check_int_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from check_int_or_percent(surge, f"{path}.maxSurge")
    if not read_int_or_percent(unavailable) and not read_int_or_percent(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        yield make_invalid_shown_error(f"{path}.maxUnavailable", format_go_int_or_string(unavailable), detail)
    yield from check_at_most_100_percent(unavailable, f"{path}.maxUnavailable")


class ReplicaSetStrategy(_WorkloadStrategy):
    """ReplicaSets."""

    def fill(self, spec: Document) -> None:
        spec.setdefault("replicas", 1)

    def build_empty_status(self) -> Document:
        return {"replicas": 0}

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_replica_set(doc.get("spec") or {}, self.release))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*_report_twice(self.validate_create(new)), *_check_selector_kept(new, old)]

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        fields = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return list(_check_counts(new.get("status") or {}, "status", fields, ready="readyReplicas"))


def _check_replica_set(spec: Doc, release: Release) -> Causes:
    yield from check_not_negative(spec.get("replicas"), "spec.replicas")
    yield from check_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _check_selector_and_template(spec, "deployment", "invalid label selector", release)


class ReplicationControllerStrategy(_WorkloadStrategy):
    """ReplicationControllers: like ReplicaSets, but the selector is a plain map that defaults to the template's
    labels.
    """

    def build_empty_status(self) -> Document:
        return {"replicas": 0}

    def default(self, doc: Document) -> Document:
        super().default(doc)
        spec = doc["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not spec.get("selector"):
            spec["selector"] = dict(labels)
        _copy_labels(doc)
        return doc

    def fill(self, spec: Document) -> None:
        spec.setdefault("replicas", 1)

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_replication_controller(doc.get("spec") or {}, self.release))


def _copy_labels(doc: Document) -> None:
    """Give a controller without labels the labels of its template."""
    metadata = doc.setdefault("metadata", {})
    labels = ((doc["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _check_replication_controller(spec: Doc, release: Release) -> Causes:
    yield from check_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    if not spec.get("selector"):
        yield make_required_error("spec.selector")
    yield from check_not_negative(spec.get("replicas"), "spec.replicas")
    template = spec.get("template")
    if template is None:
        yield make_required_error("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("selector") or {}).items()):
        yield make_invalid_shown_error(
            "spec.template.metadata.labels", format_go_string_map(labels or None), _NO_MATCH
        )
    yield from _check_template(template, "spec.template", release)


class StatefulSetStrategy(_WorkloadStrategy):
    """StatefulSets."""

    def fill(self, spec: Document) -> None:
        spec.setdefault("podManagementPolicy", "OrderedReady")
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            update.setdefault("rollingUpdate", {})
        if update["type"] == "RollingUpdate" and update.get("rollingUpdate") is not None:
            update["rollingUpdate"].setdefault("partition", 0)
            if self.release.is_at_least("1.37"):
                update["rollingUpdate"].setdefault("maxUnavailable", 1)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            fill_claim_spec(claim.setdefault("spec", {}))
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def build_empty_status(self) -> Document:
        return {"replicas": 0, "availableReplicas": 0}

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_stateful_set(doc.get("spec") or {}, self.release))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = self.validate_create(new)
        before, after = (
            {key: value for key, value in doc["spec"].items() if key not in _STATEFUL_SET_CHANGES}
            for doc in (old, new)
        )
        if self.release.is_at_least("1.37"):
            for field in _STATEFUL_SET_KEPT:
                if not is_same(before.get(field), after.get(field)):
                    shown = format_shown(after.get(field))
                    causes.append(make_invalid_shown_error(f"spec.{field}", shown, "field is immutable"))
        elif not is_same(before, after):
            causes.append(make_forbidden_error("spec", _STATEFUL_SET_FIXED))
        return causes

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        status = new.get("status") or {}
        fields = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        causes = list(_check_counts(status, "status", fields, ready="status.readyReplicas"))
        return [*causes, *_check_collisions(new, old)]


_STATEFUL_SET_CHANGES: Final = frozenset(
    {
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "template",
        "updateStrategy",
    }
)
_STATEFUL_SET_KEPT: Final = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")
"""Fields that no update may change. Since 1.37, API servers report each of them with its own error."""
_STATEFUL_SET_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _check_stateful_set(spec: Doc, release: Release) -> Causes:
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        yield make_invalid_error(
            "spec.podManagementPolicy", policy or "", "must be 'OrderedReady' or 'Parallel'"
        )
    yield from _check_stateful_update(spec.get("updateStrategy") or {}, "spec.updateStrategy", release)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field) not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            yield make_not_supported_error(path, retention.get(field) or "", ("Retain", "Delete"))
    yield from check_not_negative(spec.get("replicas"), "spec.replicas")
    yield from check_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from check_not_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    with_claims = {**spec, "template": _with_claim_volumes(spec)}
    yield from _check_selector_and_template(
        with_claims, "statefulset", "", release, template_name="StatefulSet"
    )


def _with_claim_volumes(spec: Doc) -> Doc:
    """Return the template with the volumes of claim templates, which its containers may mount."""
    template: Doc = spec.get("template") or {}
    names = [
        (template.get("metadata") or {}).get("name") for template in spec.get("volumeClaimTemplates") or ()
    ]
    if not names:
        return template
    pod: Doc = template.get("spec") or {}
    own = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**template, "spec": {**pod, "volumes": [*own, *claimed]}}


def _check_stateful_update(update: Doc, path: str, release: Release) -> Causes:
    rolling = update.get("rollingUpdate")
    match update.get("type"):
        case "OnDelete":
            if rolling is not None:
                partition = rolling.get("partition", 0)
                fields = f"Partition:{partition}, MaxUnavailable:(*intstr.IntOrString)(nil)"
                text = f"apps.RollingUpdateStatefulSetStrategy{{{fields}}}"
                detail = "only allowed for updateStrategy 'RollingUpdate'"
                yield make_invalid_shown_error(f"{path}.rollingUpdate", text, detail)
        case "RollingUpdate":
            if rolling is not None:
                yield from check_not_negative(rolling.get("partition"), f"{path}.rollingUpdate.partition")
                unavailable = rolling.get("maxUnavailable")
                place = f"{path}.rollingUpdate.maxUnavailable"
                yield from check_int_or_percent(unavailable, place)
                yield from check_at_most_100_percent(unavailable, place)
                if unavailable in (0, "0%") and release.is_at_least("1.37"):
                    yield make_invalid_error(place, unavailable, "cannot be 0")
        case other:
            rolling_text = "(*apps.RollingUpdateStatefulSetStrategy)(nil)"
            text = f'apps.StatefulSetUpdateStrategy{{Type:"{other}", RollingUpdate:{rolling_text}}}'
            yield make_invalid_shown_error(path, text, "must be 'RollingUpdate' or 'OnDelete'")


class DaemonSetStrategy(_WorkloadStrategy):
    """DaemonSets."""

    def fill(self, spec: Document) -> None:
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def default(self, doc: Document) -> Document:
        super().default(doc)
        annotations = doc.setdefault("metadata", {}).get("annotations") or {}
        if _TEMPLATE_GENERATION not in annotations:
            doc["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: "0"}
        return doc

    def prepare_create(self, doc: Document) -> Document:
        super().prepare_create(doc)
        _set_template_generation(doc, 1)
        return doc

    def build_empty_status(self) -> Document:
        return {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }

    def prepare_update(self, new: Document, old: Document) -> Document:
        super().prepare_update(new, old)
        generation = _read_template_generation(old)
        changed = not is_same(new["spec"].get("template"), old["spec"].get("template"))
        _set_template_generation(new, generation + 1 if changed else generation)
        return new

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_daemon_set(doc.get("spec") or {}, self.release))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*_report_twice(self.validate_create(new)), *_check_selector_kept(new, old)]

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        causes: list[Cause] = []
        for field, value in (new.get("status") or {}).items():
            if isinstance(value, int):
                causes += check_not_negative(value, f"status.{field}")
        return [*causes, *_check_collisions(new, old)]


_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _read_template_generation(doc: Document) -> int:
    text = ((doc.get("metadata") or {}).get("annotations") or {}).get(_TEMPLATE_GENERATION, "0")
    return int(text) if text.isdecimal() else 0


def _set_template_generation(doc: Document, generation: int) -> None:
    metadata = doc.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(generation)}


def _check_daemon_set(spec: Doc, release: Release) -> Causes:
    yield from check_selector(spec.get("selector"), "spec.selector")
    template, selector = spec.get("template") or {}, spec.get("selector")
    if not selects(selector, (template.get("metadata") or {}).get("labels")):
        labels = (template.get("metadata") or {}).get("labels")
        yield make_invalid_shown_error(
            "spec.template.metadata.labels", format_go_string_map(labels), _NO_MATCH
        )
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        detail = "empty selector is invalid for daemonset"
        yield make_invalid_shown_error("spec.selector", format_go_selector(selector), detail)
    yield from _check_template(template, "spec.template", release, kind="DaemonSet")
    yield from check_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    update, path = spec.get("updateStrategy") or {}, "spec.updateStrategy"
    match update.get("type"):
        case "OnDelete":
            pass
        case "RollingUpdate":
            yield from _check_rolling_daemon_set(update.get("rollingUpdate") or {}, f"{path}.rollingUpdate")
        case other:
            kind = "apps.DaemonSetUpdateStrategy"
            text = f'{kind}{{Type:"{other}", RollingUpdate:(*apps.RollingUpdateDaemonSet)(nil)}}'
            yield make_not_supported_error(path, other, ("RollingUpdate", "OnDelete"), text=text)
    yield from check_not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _check_rolling_daemon_set(rolling: Doc, path: str) -> Causes:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for value, field in ((unavailable, "maxUnavailable"), (surge, "maxSurge")):
        yield from check_int_or_percent(value, f"{path}.{field}")
    for value, field in ((unavailable, "maxUnavailable"), (surge, "maxSurge")):
        yield from check_at_most_100_percent(value, f"{path}.{field}")
    if read_int_or_percent(unavailable) and read_int_or_percent(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        yield make_invalid_shown_error(f"{path}.maxSurge", format_go_int_or_string(surge), detail)
    elif not read_int_or_percent(unavailable) and not read_int_or_percent(surge):
        yield make_required_error(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


class ControllerRevisionStrategy(BuiltinStrategy):
    """ControllerRevisions: a snapshot that never changes, and a revision number that may change."""

    def validate_create(self, doc: Document) -> list[Cause]:
        causes = list(check_not_negative(doc.get("revision"), "revision"))
        data = doc.get("data")
        if data is None:
            causes.append(make_required_error("data", "data is mandatory"))
        elif not isinstance(data, dict):
            causes.append(make_required_error("data", "data must be a valid JSON object"))
        return causes

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = list(check_not_negative(new.get("revision"), "revision"))
        return [*causes, *check_immutable(new.get("data"), old.get("data"), "data")]


class PodTemplateStrategy(BuiltinStrategy):
    """PodTemplates: a template as a separate object."""

    tracks_generation = True

    def default(self, doc: Document) -> Document:
        template = doc.setdefault("template", {})
        fill_pod_spec(template.setdefault("spec", {}))
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(check_pod_template(doc.get("template") or {}, "template", self.release))


# --- shared ---


def _report_twice(causes: list[Cause]) -> list[Cause]:
    """Report each fault twice: some kinds check an update both as a new object and as an update."""
    return [*causes, *causes]


def _check_selector_and_template(
    spec: Doc, kind: str, unreadable: str, release: Release, *, template_name: str = "ReplicaSet"
) -> Causes:
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        yield make_required_error("spec.selector")
    else:
        yield from check_selector(selector, "spec.selector")
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            yield make_invalid_shown_error(
                "spec.selector", format_go_selector(selector), f"empty selector is invalid for {kind}"
            )
    if not _is_valid_selector(selector):
        yield make_invalid_shown_error("spec.selector", format_go_selector(selector), unreadable)
        return
    empty = selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))
    labels = (template.get("metadata") or {}).get("labels")
    if not empty and not selects(selector, labels):
        yield make_invalid_shown_error(
            "spec.template.metadata.labels", format_go_string_map(labels), _NO_MATCH
        )
    yield from _check_template(template, "spec.template", release, kind=template_name)


def _check_template(
    template: Doc, path: str, release: Release, *, kind: str = "ReplicationController"
) -> Causes:
    yield from check_pod_template(template, path, release)
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        yield make_not_supported_error(
            f"{path}.spec.restartPolicy", spec.get("restartPolicy") or "", ("Always",)
        )
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        yield make_forbidden_error(f"{path}.spec.activeDeadlineSeconds", detail)


def _is_valid_selector(selector: Doc | None) -> bool:
    try:
        parse_selector(selector)
    except SelectorError:
        return False
    return True


def _check_selector_kept(new: Document, old: Document) -> Causes:
    after, before = new["spec"].get("selector"), old["spec"].get("selector")
    if not is_same(after, before):
        yield make_invalid_shown_error("spec.selector", format_go_selector(after), "field is immutable")


def _check_counts(status: Doc, path: str, fields: tuple[str, ...], *, ready: str) -> Causes:
    for field in ("replicas", *fields, "observedGeneration", "collisionCount"):
        yield from check_not_negative(status.get(field), f"{path}.{field}")
    replicas = status.get("replicas") or 0
    for field in fields:
        if (status.get(field) or 0) > replicas:
            yield make_invalid_error(
                f"{path}.{field}", status[field], "cannot be greater than status.replicas"
            )
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        yield make_invalid_error(
            f"{path}.availableReplicas", status["availableReplicas"], f"cannot be greater than {ready}"
        )


def _check_collisions(new: Document, old: Document) -> Causes:
    before = (old.get("status") or {}).get("collisionCount")
    after = (new.get("status") or {}).get("collisionCount")
    if before is not None and (after is None or after < before):
        yield make_invalid_error("status.collisionCount", after or 0, "cannot be decremented")
