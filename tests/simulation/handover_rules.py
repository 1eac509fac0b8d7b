"""Rules of a CloneSet while the leader changes: never a surplus pod, even if a manager's caches lag.

Other rules consider what a manager could know. These do not, because a new leader waits until it knows the writes of
the previous leader (kube/election/takeover.py).
"""

from collections.abc import Iterator

from pykruise.testing.simulation.history import Commit
from simulation.cloneset_rules import CloneSetRules
from simulation.rules import PODS, Violation

__all__ = ["HandOverRules"]


class HandOverRules(CloneSetRules):
    """The rules of CloneSets, and an absolute limit, for scripts that only scale and update."""

    _most = 0

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        yield from super().on_commit(commit)
        if self.workloads:
            self._most = max(self._most, self.workloads[-1].replicas + self.workloads[-1].max_surge)
        if commit.shelf == PODS and commit.old is None:
            active = [pod.name for pod in self.pods.latest() if pod.is_active]
            if len(active) > self._most:
                yield self._broken(
                    commit, "doubled", f"{len(active)} pods, at most {self._most} were asked for"
                )
