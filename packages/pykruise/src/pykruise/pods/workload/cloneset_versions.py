"""Conversion of CloneSets between v1alpha1 and v1beta1, also for templates of CloneSets in UnitedDeployments.

v1alpha1 ──▶ to_hub() ──▶ v1beta1 ──▶ to_spoke() ──▶ v1alpha1; kube/schemas/conversion.py keeps fields of one version

A template is an object with `metadata` and `spec` too, so the functions serve both. They change their argument.

Differences of v1alpha1: the update strategy is flat (pods/workload/v1alpha1_strategy.py), the field for the reuse of
claims has the opposite meaning, the exclusion of pods in PreparingDelete is a label, and the settings of image
pre-download are annotations. Labels and annotations stay on the v1beta1 object. In v1alpha1, these labels and
annotations always equal the fields, so that a write through v1alpha1 does not restore removed settings.
"""

import re
from typing import Final

from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import annotate, drop, find_section
from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve
from pykruise.pods.view import keys
from pykruise.pods.workload import v1alpha1_strategy

EXCLUDE_PREPARING_DELETE: Final = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
"""Label of a v1alpha1 CloneSet; "true" sets the field excludePreparingDelete."""

_FIELDS: Final = (
    (keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION, "imagePreDownloadParallelism"),
    (keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION, "imagePreDownloadTimeoutSeconds"),
    (keys.PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION, "imagePreDownloadMinUpdatedReadyPods"),
)
"""Annotations of a v1alpha1 CloneSet → fields of the in-place strategy. The value of the last annotation may be a
percentage of replicas, which is resolved on conversion, because v1beta1 accepts only a number.
"""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)

_SHARE: Final = "imagePreDownloadMinUpdatedReadyPods"


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    if (spec := find_section(doc, "spec")) is not None:
        _convert_spec_to_hub(doc, spec)
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    if (spec := find_section(doc, "spec")) is not None:
        _convert_spec_to_spoke(doc, spec)
    return doc


def _convert_spec_to_hub(doc: Document, spec: Document) -> None:
    scale = _ensure_scale_strategy(spec)
    if scale is not None:
        # Always written, because the default of the v1beta1 schema has the opposite meaning.
        scale["enablePVCReuse"] = scale.pop("disablePVCReuse", None) is not True
        if _excludes_preparing_delete(doc):
            scale["excludePreparingDelete"] = True
    # v1alpha1 has fields for image pre-download, but only its annotations have an effect.
    in_place = find_section(spec, "updateStrategy", "inPlaceUpdateStrategy")
    drop(in_place, *(field for _, field in _FIELDS))
    v1alpha1_strategy.nest(spec)
    _read_annotations(doc, spec)


def _convert_spec_to_spoke(doc: Document, spec: Document) -> None:
    scale = _ensure_scale_strategy(spec)
    if scale is not None:
        scale["disablePVCReuse"] = scale.pop("enablePVCReuse", None) is not True
        if scale.pop("excludePreparingDelete", None) is True:
            annotate(doc, EXCLUDE_PREPARING_DELETE, "true", part="labels")
        elif _excludes_preparing_delete(doc):
            annotate(doc, EXCLUDE_PREPARING_DELETE, None, part="labels")
    v1alpha1_strategy.flatten(spec)
    _write_annotations(doc, spec)


def _ensure_scale_strategy(spec: Document) -> Document | None:
    """`spec.scaleStrategy`, created when missing; None if the field is not an object."""
    scale = spec.setdefault("scaleStrategy", {}) or {}
    if not isinstance(scale, dict):
        return None
    spec["scaleStrategy"] = scale
    return scale


def _excludes_preparing_delete(doc: Document) -> bool:
    return (find_section(doc, "metadata", "labels") or {}).get(EXCLUDE_PREPARING_DELETE) == "true"


def _read_annotations(doc: Document, spec: Document) -> None:
    """Copy settings of image pre-download into the strategy. Values that are not numbers, or too great, are left out,
    except the parallelism, which is copied as text.
    """
    annotations = find_section(doc, "metadata", "annotations") or {}
    texts = {field: annotations[key] for key, field in _FIELDS if annotations.get(key)}
    result: Document = {}
    for field, text in texts.items():
        number = _parse_amount(field, text, spec)
        if number is not None:
            result[field] = number
        elif field == "imagePreDownloadParallelism":
            result[field] = text
    if not result:
        return
    rolling = v1alpha1_strategy.rolling_update_of(spec)
    if rolling is not None:
        in_place = rolling.get("inPlaceUpdateStrategy")
        rolling["inPlaceUpdateStrategy"] = {**(in_place if isinstance(in_place, dict) else {}), **result}


def _write_annotations(doc: Document, spec: Document) -> None:
    in_place = find_section(spec, "updateStrategy", "inPlaceUpdateStrategy")
    was_empty = not in_place
    for key, field in _FIELDS:
        value = in_place.pop(field, None) if in_place is not None else None
        said = _parse_amount(field, (find_section(doc, "metadata", "annotations") or {}).get(key), spec)
        if value is not None and value == said:
            continue  # a text with this meaning is kept, such as a percentage
        if value is not None:
            annotate(doc, key, str(value))
        elif said is not None or field == "imagePreDownloadParallelism":
            annotate(doc, key, None)
    if not in_place and not was_empty:
        del spec["updateStrategy"]["inPlaceUpdateStrategy"]


def _parse_amount(field: str, text: object, spec: Document) -> int | None:
    """Number in the text of an annotation; None if the text is not a number that the field can have."""
    if field == _SHARE and is_percent(text):
        replicas = spec.get("replicas", 1)
        of = max(replicas, 0) if isinstance(replicas, int) else 1
        number = resolve(str(text), of=of, rounding=Rounding.UP)
    elif isinstance(text, str) and _NUMBER.fullmatch(text):
        number = int(text)
    else:
        return None
    return number if -(2**31) <= number < 2**31 else None
