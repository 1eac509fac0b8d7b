"""Resources of a sidecar that are computed from the pod's own containers: `resourcesPolicy`.

pod + policy ──▶ compute_resources() ──▶ the `resources` of the sidecar

Pure. Used only at injection; a running pod is not resized.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.expressions import evaluate
from pykruise.kinds.sidecarset.hashes import is_native
from pykruise.kinds.sidecarset.types import ResourceAmounts, ResourcesPolicy
from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import excerpt
from pykruise.kube.values.patterns import PatternError, compile_pattern
from pykruise.kube.values.quantities import Quantity

SUM: Final = "sum"


class SidecarAmountError(ValueError):
    """The resources cannot be computed for this pod; the message gives the reason."""


def compute_resources(
    pod_spec: Mapping[str, Any],
    policy: ResourcesPolicy,
    *,
    sidecars: Collection[str],
    claims: Sequence[Any] | None = None,
) -> Document:
    """Compute the resources of a sidecar in this pod. `sidecars`: names of containers whose resources are not used;
    `claims`: resource claims of the sidecar itself.

    Raises SidecarAmountError.
    """
    targets = _find_targets(pod_spec, policy.target_containers_name_regex or ".*", sidecars)
    add_up = policy.target_containers_mode == SUM
    resources: Document = {}
    texts = policy.resources_expr
    for bound, wanted in (("limits", texts.limits), ("requests", texts.requests)):
        if amounts := _compute_amounts(targets, wanted, bound, add_up=add_up):
            resources[bound] = amounts
    if claims:
        resources["claims"] = list(claims)
    return resources


def _find_targets(
    pod_spec: Mapping[str, Any], pattern: str, sidecars: Collection[str]
) -> list[Mapping[str, Any]]:
    everyone = [container for container in pod_spec.get("initContainers") or () if is_native(container)]
    everyone += pod_spec.get("containers") or ()
    try:
        matches = compile_pattern(pattern).search
    except PatternError as error:
        raise SidecarAmountError(
            f"targetContainersNameRegex {excerpt(pattern)!r} is not a regular expression: {error}"
        ) from error
    targets = [
        item.get("resources") or {}
        for item in everyone
        if item.get("name") not in sidecars and matches(str(item.get("name") or ""))
    ]
    if not targets:
        raise SidecarAmountError(f"no containers match the regex pattern {excerpt(pattern)!r}")
    return targets


def _compute_amounts(
    targets: Sequence[Mapping[str, Any]], texts: ResourceAmounts | None, bound: str, *, add_up: bool
) -> dict[str, str]:
    """Evaluate the expressions. If one of the containers has no limit for a resource, the sidecar gets
    no limit for it.
    """
    amounts: dict[str, str] = {}
    for resource, text in (("cpu", texts.cpu), ("memory", texts.memory)) if texts else ():
        given = [(target.get(bound) or {}).get(resource) for target in targets]
        if text and (bound == "requests" or None not in given):
            total = _compute_total(
                [_parse_quantity(item) for item in given if item is not None], add_up=add_up
            )
            amounts[resource] = _evaluate(text, resource, total, bound)
    return amounts


def _compute_total(amounts: Sequence[Quantity], *, add_up: bool) -> Quantity:
    if not amounts:
        return Quantity(0)
    return sum(amounts, Quantity(0)) if add_up else max(amounts)


def _parse_quantity(value: Any) -> Quantity:
    try:
        return Quantity.parse(value)
    except ValueError as error:
        raise SidecarAmountError(
            f"{excerpt(str(value))!r} of a container is not a quantity: {error}"
        ) from error


def _evaluate(text: str, resource: str, amount: Quantity, bound: str) -> str:
    try:
        return str(evaluate(text, variable=resource, amount=amount))
    except ValueError as error:
        raise SidecarAmountError(f"resourcesExpr.{bound}.{resource} {excerpt(text)!r} {error}") from error
