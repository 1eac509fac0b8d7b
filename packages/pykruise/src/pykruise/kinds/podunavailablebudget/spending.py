"""Spends budgets for many pods at the same time, but never more units than the budget has.

pod + operation ──▶ BudgetSpender.ask() ──▶ one status write for all waiting requests ──▶ BudgetAnswer
                                            (kube/cache/batched_updates.py)

An allowed operation is stored in the budget's status before the response is sent. If a manager ends between the write
and the response, a unit of the budget is spent although the pod stays; the controller returns the unit when the record
expires (status.py).
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from pykruise.kinds.podunavailablebudget.readers import BudgetReader
from pykruise.kube.cache.batched_updates import BatchedUpdates, BatchStats, ContendedError, UpdateRequest
from pykruise.kube.clock import Clock
from pykruise.kube.ids import Key
from pykruise.pods.in_place import InPlaceSettings as InPlaceSettings
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import (
    POD_UNAVAILABLE_BUDGETS,
    BudgetAnswer,
    BudgetView,
    Operation,
    RefusalCode,
    ask,
    spend_patch,
)

PATIENCE_S: Final = 6.0
"""Seconds after which a request is rejected if each write of the budget's status ended with a conflict. API servers
wait 10 s for a response (admission/settings.py). The conflicts come from writers that spend the budget or compute its
status.
"""

_FREE = BudgetAnswer()


class BudgetConflictsError(Exception):
    """The status of the budget could not be written, because every try ended with a conflict."""


class _Spend(UpdateRequest, kw_only=True):
    """Request to take one pod out of service, and the decision about it."""

    pod: PodView
    operation: Operation
    dry_run: bool
    answer: BudgetAnswer = _FREE


class BudgetSpender:
    """Checks and spends budgets for all pods that this process admits."""

    def __init__(
        self,
        reader: BudgetReader,
        *,
        clock: Clock,
        rng: random.Random,
        in_place: InPlaceSettings,
        is_resize_apart: bool,
    ) -> None:
        self._ledger = _Status(reader, clock=clock, in_place=in_place, is_resize_apart=is_resize_apart)
        self._updates = BatchedUpdates(self._ledger, rng=rng, patience_s=PATIENCE_S)

    def read_stats(self) -> BatchStats:
        """Counters so far."""
        return self._updates.read_stats()

    def is_costly(self, budget: BudgetView, pod: PodView, operation: Operation) -> bool:
        """Whether the operation needs a unit of the budget, according to this view of the budget."""
        answer = self._ledger.ask(budget, pod, operation, spent=0)
        return answer.spends or answer.code in (RefusalCode.EXHAUSTED, RefusalCode.UNCONFIRMED)

    async def ask(
        self, budget: BudgetView, pod: PodView, operation: Operation, *, dry_run: bool
    ) -> BudgetAnswer:
        """Decide whether the pod may be taken out of service, and store the cost unless it is a dry run.

        Raises BudgetConflictsError, UnsettledError and KubeError; the operation is not allowed then.
        """
        request = _Spend(pod=pod, operation=operation, dry_run=dry_run)
        try:
            await self._updates.settle(budget, request)
        except ContendedError as error:
            text = f"couldn't update PodUnavailableBudget {budget.name} due to conflicts"
            raise BudgetConflictsError(text) from error
        return request.answer


class _Status:
    """Reads and writes the status of budgets for the batched updates."""

    kind = POD_UNAVAILABLE_BUDGETS.kind

    def __init__(
        self, reader: BudgetReader, *, clock: Clock, in_place: InPlaceSettings, is_resize_apart: bool
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._in_place = in_place
        self._is_resize_apart = is_resize_apart

    async def find_newest(self, key: Key) -> BudgetView | None:
        return await self._reader.find_newest(key)

    async def read_fresh(self, key: Key) -> BudgetView | None:
        return await self._reader.read_fresh(key)

    def is_free(self, view: BudgetView, request: _Spend) -> bool:
        request.answer = self.ask(view, request.pod, request.operation, spent=0)
        return request.dry_run or not request.answer.spends

    async def decide(self, view: BudgetView, batch: Sequence[_Spend]) -> Mapping[str, Operation] | None:
        spent: dict[str, Operation] = {}
        for item in batch:
            is_spent = item.pod.name in spent
            item.answer = _FREE if is_spent else self.ask(view, item.pod, item.operation, spent=len(spent))
            if item.answer.spends and not item.dry_run:
                spent[item.pod.name] = item.operation
        return spent or None

    async def write(self, view: BudgetView, change: Mapping[str, Operation]) -> BudgetView:
        return await self._reader.patch_status(view, spend_patch(view, change, now=self._clock()))

    def settle_without(self, batch: Sequence[_Spend]) -> None:
        for item in batch:
            item.answer = _FREE

    def ask(self, view: BudgetView, pod: PodView, operation: Operation, *, spent: int) -> BudgetAnswer:
        """Decide from this view of the budget, without a write."""
        return ask(
            view,
            pod,
            operation,
            spent=spent,
            now=self._clock(),
            settings=self._in_place,
            is_resize_apart=self._is_resize_apart,
        )


class Budgeting:
    """Reader and spender for the admission of pods."""

    def __init__(
        self,
        reader: BudgetReader,
        *,
        clock: Clock,
        rng: random.Random,
        in_place: InPlaceSettings = InPlaceSettings(),  # noqa: B008 - frozen
        is_resize_apart: bool = False,
    ) -> None:
        self.reader = reader
        self.spender = BudgetSpender(
            reader, clock=clock, rng=rng, in_place=in_place, is_resize_apart=is_resize_apart
        )
