"""Places for work that pods can prolong, so that slow work of one pod or namespace does not stop the work of others.

a check that is due ──try_take(namespace, pod)──▶ TenantPlaces ──▶ it runs ──release()──▶ the place is free again
                                                             └──▶ no place: it tries again later

A namespace takes a place only while it holds fewer places than are free. So one namespace holds at most half of the
places, two namespaces at most two thirds, and an additional namespace always gets a place. The controller that uses the
places needs more workers than there are places, because waiting work must not hold a worker.
"""

from collections import Counter

__all__ = ["TenantPlaces"]


class TenantPlaces:
    """`count` places. `most_of_pod`: the maximum number of places that one pod holds."""

    def __init__(self, count: int, *, most_of_pod: int) -> None:
        self._free = count
        self._most_of_pod = most_of_pod
        self._of_namespace = Counter[str]()
        self._of_pod = Counter[tuple[str, str]]()

    def try_take(self, namespace: str, pod: str) -> bool:
        """Take a place if the pod and its namespace may have one more, and return whether they may. `pod`: its name or
        its UID.
        """
        if self._of_namespace[namespace] >= self._free or self._of_pod[namespace, pod] >= self._most_of_pod:
            return False
        self._free -= 1
        self._of_namespace[namespace] += 1
        self._of_pod[namespace, pod] += 1
        return True

    def release(self, namespace: str, pod: str) -> None:
        """Give back a place that was taken for the pod."""
        self._free += 1
        self._of_namespace[namespace] -= 1
        self._of_pod[namespace, pod] -= 1
        if not self._of_namespace[namespace]:
            del self._of_namespace[namespace]
        if not self._of_pod[namespace, pod]:
            del self._of_pod[namespace, pod]
