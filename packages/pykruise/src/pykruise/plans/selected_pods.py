"""Pods that a label selector means, found by their labels.

selector ──▶ the label it asks for that fewest pods have ──▶ pods with that label ──▶ selected_pods(): those that match

Pure. So many selectors in one namespace cost what they mean, and not all pods of the namespace each.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from pykruise.kube.values.selectors import Selector
from pykruise.plans.views import BY_LABEL, POD_VIEWS, UNINDEXED_LABELS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Mirrors
from pykruise.runtime.views import BY_NAMESPACE


def selected_pods(selector: Selector, namespace: str, read: Mirrors) -> Iterator[PodView]:
    """Pods of the namespace that match, in any order; those that have ended or are being deleted too."""
    return (pod for pod in _candidates(selector, namespace, read) if selector.matches(pod.labels))


def _candidates(selector: Selector, namespace: str, read: Mirrors) -> Iterable[PodView]:
    """No others can match. A selector that asks for no value of a label is compared with all pods of the namespace."""
    choices = [
        [(namespace, key, value) for value in dict.fromkeys(values)]
        for key, values in selector.listed_values()
        if key not in UNINDEXED_LABELS
    ]
    if not choices:
        return read.by_index(POD_VIEWS, BY_NAMESPACE, namespace)
    rarest = min(choices, key=lambda labels: sum(read.count(POD_VIEWS, BY_LABEL, label) for label in labels))
    return chain.from_iterable(read.by_index(POD_VIEWS, BY_LABEL, item) for item in rarest)
