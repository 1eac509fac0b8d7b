"""The template of a UnitedDeployment as a revision: its meaning, and the text whose hash is part of its name.

spec.template ──▶ candidate_of() ──▶ Candidate        stored ControllerRevision ──▶ convert_revision() ──▶ RevisionView

Pure. A revision contains the whole template of the workload, so a change of the workload's update strategy creates a
new revision too. As for all revisions (workload/revisions.py), two templates are equal when they have the same meaning.
The bytes are those of the OpenKruise release that uses the stored version of UnitedDeployments. The owner reference of
a revision contains the API version in which its data is written.

A default that a CRD or a webhook of one release adds, and that another release does not add, does not create a new
revision.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.uniteddeployment.conversion import convert_template_to_hub, convert_template_to_spoke
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEFAULT_UNAVAILABLE,
    DEPLOYMENT,
    STATEFUL_SET,
    TEMPLATES,
)
from pykruise.kube.documents import Document, deep_copy, encode_canonical
from pykruise.kube.values.go_text import encode_go_json
from pykruise.pods.workload.revisions import (
    Candidate,
    RevisionView,
    reduce_to_essence,
    to_typed_claim,
    to_typed_form,
)

_ZERO_IS_ABSENT: Final = frozenset({"gracePeriodSeconds", "minReadySeconds"})
_FALSE_IS_ABSENT: Final = frozenset(
    {"disablePVCReuse", "enablePVCReuse", "excludePreparingDelete", "markPodNotReady", "paused"}
)
_EMPTY_TEXT_IS_ABSENT: Final = frozenset(
    {"podManagementPolicy", "podUpdatePolicy", "serviceName", "type", "whenDeleted", "whenScaled"}
)
"""Fields of the specs of workloads, outside of pod templates, that Go types omit when they are 0, false or empty
(`omitempty` on a value that is not a pointer).
"""

_POINTERS: Final = frozenset({("rollingUpdate", "minReadySeconds")})
"""Fields (parent, name) that are pointers in Go, so 0 is written."""

_ALWAYS: Final[Mapping[str, Document]] = {
    STATEFUL_SET: {"serviceName": "", "updateStrategy": {}},
    ADVANCED_STATEFUL_SET: {"updateStrategy": {}, "volumeClaimUpdateStrategy": {}},
    CLONE_SET: {"scaleStrategy": {}, "updateStrategy": {}},
    DEPLOYMENT: {"strategy": {}},
}
"""Fields that a typed Go client always writes."""

_DEFAULTS: Final[Mapping[str, Document]] = {
    CLONE_SET: {
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {
                "podUpdatePolicy": "ReCreate",
                "partition": 0,
                "maxUnavailable": DEFAULT_UNAVAILABLE[CLONE_SET],
                "maxSurge": 0,
            },
        }
    }
}
"""Fields that conversion or a webhook adds: templates with and without these fields are equal."""

_POD_TEMPLATE: Final = "template"
_CLAIMS: Final = "volumeClaimTemplates"


def candidate_of(template: Mapping[str, Any], *, version: str = UNITED_DEPLOYMENTS.version) -> Candidate:
    """Return the revision that would store `spec.template` (of the hub version) in a cluster that stores
    UnitedDeployments in `version`.
    """
    plain = {name: value for name, value in template.items() if name != "$patch"}
    written = plain if version == UNITED_DEPLOYMENTS.version else convert_template_to_spoke(deep_copy(plain))
    typed = {name: _to_typed(name, value) for name, value in written.items() if value is not None}
    data = encode_go_json({"spec": {"template": {**typed, "$patch": "replace"}}}, sort_keys=True).encode()
    return Candidate(template=plain, data=data, meaning=_encode_meaning(plain))


def convert_revision(revision: RevisionView) -> RevisionView:
    """Convert the template of a stored revision to the hub version, so it can be compared with a candidate."""
    template = revision.template
    if revision.controller_version not in ("", UNITED_DEPLOYMENTS.version):
        template = convert_template_to_hub(deep_copy(template))
    return msgspec.structs.replace(revision, template=template, meaning=_encode_meaning(template))


def _encode_meaning(template: Mapping[str, Any]) -> bytes:
    """Return the same bytes for all templates with the same meaning. The release and the version that wrote a template
    do not matter.
    """
    result = {}
    for name, value in template.items():
        if isinstance(value, Mapping):
            typed = _to_typed(name, value)
            spec = typed.get("spec") or {}
            pods = spec.pop(_POD_TEMPLATE, None)
            spec = _drop_defaults(spec, _DEFAULTS.get(name, {}))
            result[name] = {
                **typed,
                "spec": _drop_empty(spec),
                _POD_TEMPLATE: reduce_to_essence(pods or {}),
            }
    return encode_canonical(result)


def _drop_defaults(value: Document, defaults: Mapping[str, Any]) -> Document:
    kept: Document = {}
    for name, item in value.items():
        default = defaults.get(name)
        if isinstance(item, Mapping) and isinstance(default, Mapping):
            kept[name] = _drop_defaults(dict(item), default)
        elif default is None or item != default:
            kept[name] = item
    return kept


def _drop_empty(value: Any) -> Any:
    """Drop nulls, empty objects and empty lists."""
    if isinstance(value, Mapping):
        kept = {name: _drop_empty(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_drop_empty(item) for item in value]
    return value


def _to_typed(name: str, template: Mapping[str, Any]) -> Document:
    if name not in TEMPLATES:
        return dict(template)
    given = template.get("spec")
    spec: Document = {}
    for field, value in (given if isinstance(given, Mapping) else {}).items():
        if field == _CLAIMS and isinstance(value, list):
            if value:
                spec[field] = [to_typed_claim(claim) for claim in value]
        elif field not in (_POD_TEMPLATE, "selector") and not _is_absent(value, field, ""):
            spec[field] = _to_typed_value(value, field)
        elif field == "selector":
            spec[field] = value
    result = {"selector": None, **_ALWAYS[name], **spec}
    result[_POD_TEMPLATE] = to_typed_form((given or {}).get(_POD_TEMPLATE) or {})
    metadata = template.get("metadata") or {}
    return {"metadata": {"creationTimestamp": None, **_drop_empty_metadata(metadata)}, "spec": result}


def _to_typed_value(value: Any, field: str) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _to_typed_value(item, name)
            for name, item in value.items()
            if not _is_absent(item, name, field)
        }
    if isinstance(value, list):
        return [_to_typed_value(item, field) for item in value]
    return value


def _is_absent(value: Any, field: str, parent: str) -> bool:
    """Whether a Go client omits the field with this value."""
    if value is None or value == [] or (value == {} and field in ("labelsHandler", "matchLabels")):
        return True
    if (parent, field) in _POINTERS:
        return False
    return (
        (value is False and field in _FALSE_IS_ABSENT)
        or (value == 0 and value is not False and field in _ZERO_IS_ABSENT)
        or (value == "" and field in _EMPTY_TEXT_IS_ABSENT)
    )


def _drop_empty_metadata(metadata: Mapping[str, Any]) -> Document:
    return {name: value for name, value in metadata.items() if value}
