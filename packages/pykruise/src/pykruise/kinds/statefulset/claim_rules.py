"""Changes of volumeClaimTemplates that existing claims can follow (volumeClaimUpdateStrategy OnPodRollingUpdate).

new spec + stored object + storage classes ──▶ find_claim_errors() ──▶ field errors

Pure, except for the lookup of classes, which is an argument. Under OnDelete every change is allowed, because the
templates then affect only claims that are created later.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pykruise.kinds.statefulset.types import ClaimUpdateType, StatefulSetSpec
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.pod_rules.field_errors import make_forbidden_error, make_invalid_error
from pykruise.plans.review import ClassLookup
from pykruise.pods.workload.claims import read_template_name, storage_of

FIELD = "spec.volumeClaimTemplates"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


async def find_claim_errors(
    spec: StatefulSetSpec, old: Mapping[str, Any], classes: ClassLookup | None
) -> list[Cause]:
    """Find all errors of the new claim templates."""
    strategy = spec.volume_claim_update_strategy
    if strategy is None or strategy.type != ClaimUpdateType.ON_POD_ROLLING_UPDATE:
        return []
    new: list[dict[str, Any]] = spec.volume_claim_templates or []
    before: list[dict[str, Any]] = (old.get("spec") or {}).get("volumeClaimTemplates") or []
    if len(new) != len(before):
        problem = (
            "templates cannot be added or removed while volumeClaimUpdateStrategy.type is OnPodRollingUpdate"
        )
        return [make_invalid_error(FIELD, len(new), problem)]
    by_name = {read_template_name(entry): entry for entry in before}
    errors: list[Cause] = []
    resized: list[dict[str, Any]] = []
    for template in new:
        name = read_template_name(template)
        if name not in by_name:
            errors.append(make_forbidden_error(f"{FIELD}[{name}].name", "a template cannot be renamed"))
            continue
        errors += _find_shape_errors(template, by_name[name])
        if _read_sizes(template) != _read_sizes(by_name[name]):
            resized.append(template)
    if resized:
        errors += await _find_class_errors(resized, classes)
    return errors


def _read_spec(template: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = template.get("spec") or {}
    return spec


def _read_sizes(template: Mapping[str, Any]) -> tuple[int, int]:
    resources = _read_spec(template).get("resources") or {}
    return storage_of(resources.get("requests")), storage_of(resources.get("limits"))


def _find_shape_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    field = f"{FIELD}[{read_template_name(new)}]"
    wanted, there = (_read_spec(entry).get("storageClassName") for entry in (new, old))
    if None not in (wanted, there) and wanted != there:
        yield make_invalid_error(field, wanted, f"the storage class of claims cannot change (it is {there})")
    modes, had = (list(_read_spec(entry).get("accessModes") or ()) for entry in (new, old))
    if modes != had:
        yield make_invalid_error(field, modes, "the access modes of claims cannot change")


async def _find_class_errors(
    templates: Sequence[Mapping[str, Any]], classes: ClassLookup | None
) -> list[Cause]:
    if classes is None:
        return []
    try:
        result = await classes()
    except KubeError as error:
        return [make_invalid_error(FIELD, "", f"storage classes cannot be read: {error}")]
    by_name = {entry["metadata"]["name"]: entry for entry in result}
    errors: list[Cause] = []
    for template in templates:
        field = f"{FIELD}[{read_template_name(template)}].spec"
        name = _read_spec(template).get("storageClassName")
        chosen = by_name.get(name) if name is not None else _find_default_class(result)
        if chosen is None:
            if name is not None:
                errors.append(
                    make_invalid_error(f"{field}.storageClassName", name, "the storage class does not exist")
                )
        elif chosen.get("allowVolumeExpansion") is False:
            problem = f"storage class {chosen['metadata']['name']} does not allow the expansion of volumes"
            errors.append(make_forbidden_error(f"{field}.resources.requests.storage", problem))
    return errors


def _find_default_class(classes: Sequence[Document]) -> Document | None:
    """Return the newest class that is marked as default."""
    marked = [class_ for class_ in classes if annotations_of(class_).get(_IS_DEFAULT) == "true"]
    return max(marked, key=lambda entry: entry["metadata"].get("creationTimestamp") or "", default=None)
