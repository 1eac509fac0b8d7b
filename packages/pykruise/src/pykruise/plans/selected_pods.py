"""Pods that a label selector matches. They are found by an index of labels.

selector ──▶ the required label that the fewest pods have ──▶ pods with this label ──▶ select_pods(): matching pods

Pure. The time depends on the number of pods with this label, and not on the number of pods in the namespace.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from pykruise.kube.values.selectors import Selector
from pykruise.plans.views import BY_LABEL, POD_VIEWS, UNINDEXED_LABELS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Mirrors
from pykruise.runtime.views import BY_NAMESPACE


def select_pods(selector: Selector, namespace: str, read: Mirrors) -> Iterator[PodView]:
    """Yield the matching pods of the namespace in any order, also finished and terminating pods."""
    return (pod for pod in _find_candidates(selector, namespace, read) if selector.matches(pod.labels))


def _find_candidates(selector: Selector, namespace: str, read: Mirrors) -> Iterable[PodView]:
    """Return all pods that the selector possibly matches: all pods of the namespace if it requires no label value."""
    choices = [
        [(namespace, key, value) for value in dict.fromkeys(values)]
        for key, values in selector.listed_values()
        if key not in UNINDEXED_LABELS
    ]
    if not choices:
        return read.list_by_index(POD_VIEWS, BY_NAMESPACE, namespace)
    rarest = min(choices, key=lambda labels: sum(read.count(POD_VIEWS, BY_LABEL, label) for label in labels))
    return chain.from_iterable(read.list_by_index(POD_VIEWS, BY_LABEL, item) for item in rarest)
