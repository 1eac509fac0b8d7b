"""Places for work that pods can prolong, so that slow work of one pod or namespace does not stop the work of others.

a check that is due ──try_take(namespace, pod)──▶ TenantPlaces ──▶ it runs ──release()──▶ the place is free again
                                                             └──▶ no place: it tries again later

A quarter of the places is reserved: a namespace that holds no place may take any free place, and other namespaces may
take only unreserved places. A pod that already holds a place gets another one only if its namespace holds fewer places
than there are free unreserved places. A pod that holds no place gets one if its namespace holds fewer than twice as
many places as there are free unreserved places. So one namespace holds at most half of all places. If there are 256
places, a few greedy namespaces leave 64 of them, and each other namespace can take one. The controller that uses the
places needs more workers than there are places, because a worker must be free to requeue work that gets no place.
"""

from collections import Counter

__all__ = ["TenantPlaces"]

_RESERVED_SHARE = 4


class TenantPlaces:
    """`count` places. `most_of_pod`: the maximum number of places that one pod holds."""

    def __init__(self, count: int, *, most_of_pod: int) -> None:
        self._free = count
        self._reserved = count // _RESERVED_SHARE
        self._most_of_pod = most_of_pod
        self._of_namespace = Counter[str]()
        self._of_pod = Counter[tuple[str, str]]()

    def try_take(self, namespace: str, pod: str) -> bool:
        """Take a place if the pod may have one more, and return whether it may. `pod`: its name or its UID."""
        if not self._may_take(namespace, pod):
            return False
        self._free -= 1
        self._of_namespace[namespace] += 1
        self._of_pod[namespace, pod] += 1
        return True

    def _may_take(self, namespace: str, pod: str) -> bool:
        of_namespace, of_pod = self._of_namespace[namespace], self._of_pod[namespace, pod]
        if not of_namespace:
            return self._free > 0
        factor = 1 if of_pod else 2
        return of_pod < self._most_of_pod and of_namespace < factor * (self._free - self._reserved)

    def release(self, namespace: str, pod: str) -> None:
        """Give back a place that was taken for the pod."""
        self._free += 1
        self._of_namespace[namespace] -= 1
        self._of_pod[namespace, pod] -= 1
        if not self._of_namespace[namespace]:
            del self._of_namespace[namespace]
        if not self._of_pod[namespace, pod]:
            del self._of_pod[namespace, pod]
