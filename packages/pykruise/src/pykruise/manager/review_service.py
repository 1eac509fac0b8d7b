"""The reviews of a manager: their reads and reports, and the dispatcher that responds to reviews.

caches of the kinds that take part in pod admission ──▶ build_reviewers() ──▶ ReviewDispatcher ──▶ the webhook server
                                                    ──▶ SelectorIndex ──▶ match conditions
"""

import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from pykruise.admission.counts import LiveCounts
from pykruise.admission.match_conditions import ConditionRemover
from pykruise.admission.pods.chain import list_participants
from pykruise.admission.pods.readers import make_cached_readers
from pykruise.admission.pods.reports import StepReports
from pykruise.admission.protection import Protection
from pykruise.admission.reviewers import ReviewContext, build_reviewers, steps_of_pods
from pykruise.admission.selector_index import SelectorIndex, list_selecting_kinds
from pykruise.admission.settings import AdmissionSettings, make_admission_settings
from pykruise.kube.admission import ReviewRule
from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.control.offload import Aside
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.kube.schemas.served_fields import ServedFields
from pykruise.kube.webhooks.reviews import ReviewDispatcher
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhook_metrics import WebhookMetrics
from pykruise.plans.pod_steps import ReaderPlace
from pykruise.plans.review import make_live_lookups

MOST_WAITING: Final = 128
"""Maximum number of pod reviews that wait for writes of one step: half of the server's concurrent requests."""


class ReviewService:
    """Readers, steps, reports and reviews of one replica. `narrows`: whether this program maintains API servers'
    match conditions. `over` can wrap the reviewers.
    """

    def __init__(
        self,
        client: Client,
        settings: ManagerSettings,
        metrics: WebhookMetrics,
        *,
        clock: Clock,
        rng: random.Random,
        narrows: bool,
        over: Callable[[Sequence[ReviewRule]], Sequence[ReviewRule]],
    ) -> None:
        self._client, self._settings, self._metrics = client, settings, metrics
        self._clock, self._rng = clock, rng
        admission = make_admission_settings(
            settings.gates,
            namespace=settings.own_namespace,
            allow_privileged=settings.webhook.allow_privileged,
        )
        parts = list_participants(settings.gates.__getitem__)
        self.readers = make_cached_readers(parts, self._make_reader_place())
        self._reports = StepReports(client, parts, clock=clock, rng=rng, on_prevented=metrics.prevent)
        self.selectors = SelectorIndex(
            client,
            list_selecting_kinds(admission),
            {name: reader.objects for name, reader in self.readers.items()},
        )
        self.remover = ConditionRemover(client)
        context = self._review_context(admission, narrows=narrows)
        self.pod_chain = steps_of_pods(admission, context)
        self.dispatcher = ReviewDispatcher(
            over(build_reviewers(admission, context, pods=self.pod_chain)),
            observe=metrics.observe_review,
            aside=context.aside,
            served=ServedFields(settings.kubernetes or NEWEST_MINOR, settings.further_fields),
        )

    def list_problems(self) -> list[str]:
        """Reasons why reviews would have to wait."""
        return [problem for reader in self.readers.values() for problem in reader.list_problems()]

    def list_caches(self) -> list[Cache[Any]]:
        """Return the caches of the kinds' own objects."""
        return [reader.objects.cache for reader in self.readers.values()]

    def list_parts(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """Return the tasks that run beside the server, by name."""
        return {
            "webhook-events": self._reports.run(),
            **{f"webhook-{name}": reader.run() for name, reader in self.readers.items()},
        }

    def _make_reader_place(self) -> ReaderPlace:
        return ReaderPlace(
            client=lambda: self._client,
            namespace=self._settings.own_namespace,
            revision_namespace=self._settings.revision_namespace,
            clock=self._clock,
            rng=self._rng,
        )

    def _review_context(self, admission: AdmissionSettings, *, narrows: bool) -> ReviewContext:
        return ReviewContext(
            kind_settings=self._settings.read_kind_settings,
            lookups=make_live_lookups(
                lambda: self._client,
                namespace=self._settings.own_namespace,
                readers=self.readers,
                clock=self._clock,
            ),
            protection=Protection(
                LiveCounts(lambda: self._client),
                is_on=admission.deletion_protection,
                crd_cascading=admission.crd_cascading,
                on_refused=self._metrics.refuse,
            ),
            report=self._reports.report,
            announce=self.remover.remove if narrows else None,
            rng=self._rng,
            aside=Aside(),
            most_waiting=MOST_WAITING,
        )
