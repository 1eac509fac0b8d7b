"""No subset gets more pods than its limit, and no slot is lost, in any order of events."""

from collections import Counter

import msgspec
import orjson
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.workloadspread.injection import Matched
from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.slots import allocate_slot, make_fresh_entries, release_slot
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.versions import UNVERSIONED
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from support.examples import examples
from support.spreads import NOW, pod, spread, subset, view

EVENTS = st.sampled_from(["admit", "admit", "show", "delete", "sync"])


class World:
    """The stored status, admitted pods, and existing pods."""

    def __init__(self, limits: list[int]) -> None:
        self.document = spread(*(subset(f"s{i}", most) for i, most in enumerate(limits)), subset("rest"))
        self.limits = {f"s{i}": most for i, most in enumerate(limits)}
        self.admitted: dict[str, str] = {}
        self.there: dict[str, str] = {}
        self.number = 0

    @property
    def view(self) -> SpreadView:
        return view(self.document)

    def store(self, entries: tuple[object, ...] | None) -> None:
        if entries is not None:
            stored = [orjson.loads(orjson.dumps(msgspec.to_builtins(entry))) for entry in entries]
            status: Document = self.document.setdefault("status", {})
            status.setdefault("versionedSubsetStatuses", {})[UNVERSIONED] = stored

    def admit(self) -> None:
        result = self.view
        entries = result.list_entries(UNVERSIONED) or make_fresh_entries(result.subsets, replicas=0)
        name = f"p{self.number}"
        self.number += 1
        taken = allocate_slot(entries, pod_name=name, fresh_id=lambda: name, now=format_time(NOW))
        self.store(taken.entries)
        self.admitted[name] = taken.subset

    def show(self) -> None:
        if self.admitted:
            name = next(iter(self.admitted))
            self.there[name] = self.admitted.pop(name)

    def delete(self) -> None:
        if self.there:
            name = next(iter(self.there))
            of, result = self.there.pop(name), self.view
            entries = result.list_entries(UNVERSIONED) or make_fresh_entries(result.subsets, replicas=0)
            self.store(release_slot(entries, pod_name=name, subset=of, now=format_time(NOW)))

    def sync(self, *, later_s: float = 0.0) -> None:
        plan = plan_spread(SpreadSnapshot(spread=self.view, pods=self.pods(), now=NOW + later_s))
        if plan.status is not None:
            self.document["status"] = orjson.loads(orjson.dumps(plan.status))

    def pods(self) -> list[PodView]:
        return [
            project_pod(
                orjson.dumps(
                    pod(
                        name,
                        phase="Running",
                        annotations={MATCHED_SPREAD_ANNOTATION: Matched(name="ws", subset=of).to_text()},
                    )
                )
            )
            for name, of in self.there.items()
        ]

    def counted(self) -> Counter[str]:
        return Counter([*self.admitted.values(), *self.there.values()])


@examples(0.6)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.lists(EVENTS, max_size=40))
def test_no_subset_gets_more_pods_than_its_limit_and_no_slot_is_lost(
    limits: list[int], events: list[str]
) -> None:
    # given
    world = World(limits)
    for event in events:
        # when pods are admitted, appear and are deleted, and the controller reconciles, in any order
        getattr(world, event)()
        # then
        counted = world.counted()
        assert all(counted[name] <= most for name, most in world.limits.items())
        assert "" not in counted
    # when the controller has seen everything, and has forgotten admitted pods that never appeared
    while world.admitted:
        world.show()
    world.sync(later_s=60)
    # then every unused slot is free
    counted = world.counted()
    statuses = world.view.list_entries(UNVERSIONED)
    free = {status.name: status.missing_replicas for status in statuses if status.name in world.limits}
    assert free == {name: most - counted[name] for name, most in world.limits.items() if statuses}
