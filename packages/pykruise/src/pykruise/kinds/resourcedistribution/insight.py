"""ResourceDistribution for the commands explain and plan.

status ──▶ headline_of()      object ──▶ list_supplies()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pykruise.kinds.resourcedistribution.status import read_stored_conditions
from pykruise.kinds.resourcedistribution.targets import NEVER, is_target
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.resourcedistribution.view import DistributionView, project_distribution
from pykruise.kube.documents import Document, encode
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import Requirement, describe_labels
from pykruise.plans.insight import Absence, Insight, Supply


def headline_of(status: Mapping[str, Any]) -> str:
    """Return a line about the number of copies."""
    desired, succeeded, failed = (status.get(name, 0) for name in ("desired", "succeeded", "failed"))
    namespaces = format_count(desired, "namespace")
    return f"copied to {succeeded} of {namespaces}" + (f", {failed} failed" if failed else "")


def list_supplies(distribution: Document) -> Iterator[Supply]:
    """Yield the resource that the distribution copies to namespaces."""
    view = project_distribution(encode(distribution))
    if view.spec is not None and not view.is_deleting:
        yield Supply(
            kind=view.kind, name=view.copy_name, explain_absence=partial(_explain_absence, view=view)
        )


def _explain_absence(namespace: str, labels: Mapping[str, str], *, view: DistributionView) -> Absence:
    """Return the reason why a namespace with these labels has no copy."""
    who = f"{RESOURCE_DISTRIBUTIONS.kind} {view.name}"
    what = f"{RESOURCE_DISTRIBUTIONS.kind} {view.name} distributes {view.kind} {view.copy_name}"
    if is_target(view, namespace, labels):
        failure = _find_failure(view, namespace)
        words = f"{what} also to this namespace, but {failure or 'has not created the copy'}"
        command = f"kubectl kruise explain {RESOURCE_DISTRIBUTIONS}/{view.name}"
        return Absence(
            words=words, remedy=f"correct the cause, which the explanation of {who} names ({command})"
        )
    but = f"{what}, but not to namespace {namespace}"
    if namespace in NEVER:
        return Absence(words=f"{but}, which never receives a copy")
    if namespace in view.excluded:
        field = f"spec.targets.excludedNamespaces of {who}"
        return Absence(
            words=f"{but}, which spec.targets.excludedNamespaces contains",
            remedy=f"remove {namespace} from {field}",
        )
    unmet = [requirement for requirement in view.selector.requirements if not requirement.matches(labels)]
    if not unmet:
        return Absence(
            words=f"{but}, which spec.targets does not contain",
            remedy=f"add {namespace} to spec.targets.includedNamespaces of {who}",
        )
    wanted = ",".join(map(str, unmet))
    present = describe_labels(unmet, [labels])
    words = f"{but}: spec.targets.namespaceSelector requires {wanted}, and the namespace has {present}"
    return Absence(
        words=words,
        remedy=f"{_describe_labelling(unmet, namespace, wanted)}, or change spec.targets of {who}",
    )


def _find_failure(view: DistributionView, namespace: str) -> str:
    """Return the message of a failure in this namespace; empty if the status reports none."""
    for condition in read_stored_conditions(view).values():
        failed = condition.get("failedNamespaces")
        if condition.get("status") == "True" and isinstance(failed, list) and namespace in failed:
            return f"has failed there ({condition.get('reason')})"
    return ""


def _describe_labelling(unmet: Sequence[Requirement], namespace: str, wanted: str) -> str:
    """Return the instruction to label the namespace, with a command if the selector names the values."""
    values = {requirement.key: requirement.listed_value for requirement in unmet}
    if any(value is None for value in values.values()):
        return f"label namespace {namespace} so that the selector ({wanted}) matches it"
    pairs = " ".join(f"{key}={value}" for key, value in values.items())
    return f"label the namespace (kubectl label namespace {namespace} --overwrite {pairs})"


INSIGHT: Final = Insight(
    names=frozenset({"distributor"}), containers=(), headline=headline_of, supplies=list_supplies
)
