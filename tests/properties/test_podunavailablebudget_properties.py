"""A budget never admits more disruptions than it allows, in any order of events.

The test has pods that fail and recover, deletions and updates through replicas with stale caches, a controller that
runs at any time, writes with conflicts, and a clock that advances.
"""

import asyncio
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from pykruise.kinds.podunavailablebudget.plan import plan_budget
from pykruise.kube.documents import Document
from support.budgets import CLONE_SET, BudgetServer, budget, deletion, tied, update, view, workload, world

PODS = 6


class World:
    """A budget's server, its pods, and the number of admitted disruptions."""

    def __init__(self, **amount: Any) -> None:
        self.pods: dict[str, Document] = {f"p{number}": tied(f"p{number}") for number in range(PODS)}
        self.server = BudgetServer(budget(**amount))
        self.down: set[str] = set()
        self.admitted: set[str] = set()
        self.control()
        self.replicas = [
            self.server.replica(seed=1),
            self.server.replica(seed=2, is_stale=True),
            self.server.replica(seed=3, is_stale=True),
        ]

    def documents(self) -> list[Document]:
        return [tied(name, ready=False) if name in self.down else doc for name, doc in self.pods.items()]

    def control(self) -> None:
        """Reconcile, and write the status."""
        self.server.conflicts_to_come = 0
        stored = self.server.budgets["pub"]
        plan = plan_budget(world(stored, self.documents(), [workload(CLONE_SET, PODS)]))
        if plan.status is not None:
            patch = {"status": {"disruptedPods": None, "unavailablePods": None, **plan.status}}
            asyncio.run(self.server.patch(view(stored), patch))

    def serving(self) -> int:
        return len(self.pods.keys() - self.down - self.admitted)


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(("delete", "update", "together", "gone", "fail", "recover", "control", "conflict")),
        st.integers(0, PODS - 1),
        st.integers(0, 2),
    ),
    max_size=25,
)


@given(
    script=steps,
    amount=st.sampled_from(({"maxUnavailable": 2}, {"minAvailable": 4}, {"maxUnavailable": "50%"})),
)
def test_no_request_is_admitted_beyond_the_budget(script: list[Step], amount: dict[str, Any]) -> None:
    it = World(**amount)
    desired = it.server.status()["desiredAvailable"]
    for what, number, by in script:
        name = f"p{number}"
        match what:
            case "delete" | "update" | "together":
                names = [f"p{(number + other) % PODS}" for other in range(3 if what == "together" else 1)]
                ask(it, [name for name in names if name in it.pods], by, what, desired)
            case "gone":
                if name in it.admitted:
                    it.pods.pop(name, None)
                    it.control()
            case "fail" | "recover":
                (it.down.add if what == "fail" else it.down.discard)(name)
                it.control()  # the controller sees failures immediately
            case "control":
                it.control()
            case "conflict":
                it.server.conflicts_to_come = 2


def ask(it: World, names: list[str], by: int, what: str, desired: int) -> None:
    """Request a disruption of each pod through the replicas in turn; the admitted ones never leave too few pods."""

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(
            *(
                it.replicas[(by + index) % 3].judge(request_for(it, name, what))
                for index, name in enumerate(names)
            )
        )

    before = it.serving()
    for name, refused in zip(names, asyncio.run(all_at_once()), strict=True):
        if refused is None:
            it.admitted.add(name)
    assert it.serving() >= min(desired, before)


def request_for(it: World, name: str, what: str) -> Any:
    doc = tied(name, ready=False) if name in it.down else it.pods[name]
    if what == "update":
        return update(doc, {**doc, "spec": {**doc["spec"], "nodeName": "other"}})
    return deletion(doc)
