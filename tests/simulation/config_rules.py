"""Rules of a CloneSet whose revision contains the content of a ConfigMap (pykruise.io/roll-on-config).

commit of the ConfigMap ──▶ FollowedRules ──▶ the CloneSet's template with that content ──▶ CloneSetRules

A manager may know any content since the position of its cache, and combine it with any known version of the CloneSet.
While the ConfigMap does not exist, the record of any earlier content may be kept.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from pykruise.pods.template.config_content import (
    digest_content,
    list_config_uses,
    make_annotations,
    record_content,
    select_uses,
)
from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.cloneset_rules import CloneSetRules, Workload
from simulation.pods import Version
from simulation.rules import Violation, plain
from simulation.versions import find_first_since

__all__ = ["CONFIG_NAME", "FollowedRules"]

CONFIG_NAME = "app"
CONFIGS = "configmaps"

Content = tuple[int, Mapping[str, Any] | None]
"""The revision of a commit, and the ConfigMap; None: it does not exist."""


class FollowedRules(CloneSetRules):
    """Rules of one CloneSet that follows one ConfigMap."""

    shelves = CloneSetRules.shelves | {CONFIGS}

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._contents: list[Content] = [(0, None)]
        self._known_config = 0

    def read(self, document: Any, revision: int) -> Workload:
        return self._with_latest(super().read(document, revision))

    def on_other(self, commit: Commit) -> Iterator[Violation]:
        if commit.shelf != CONFIGS:
            yield from super().on_other(commit)
        elif (commit.key.namespace, commit.key.name) == (self._namespace, CONFIG_NAME):
            self._contents.append((commit.revision, commit.new))
            if self.workloads:
                self.workloads[-1] = self._with_latest(self.workloads[-1])

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        if commit.reconcile is not None:
            self._known_config = _find_known(commit.reconcile)
        yield from super().on_commit(commit)

    def _workloads_since(self, known: int) -> list[Workload]:
        workloads = super()._workloads_since(known)
        first = find_first_since(self._contents, self._known_config, revision_of=itemgetter(0))
        versions = [
            _with_content(workload, content)
            for workload in workloads
            for content in self._list_possible(first)
        ]
        return [*versions, *workloads[-1:]]

    def _is_taken_out(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workload: Workload
    ) -> bool:
        """A pod whose metadata alone is updated serves all the time, unless the owner of a hook takes it out."""
        serves = after.is_active and after.is_ready and after.images == before.images
        if serves and after.state == "Updating" and not workload.in_place_hook:
            return False
        return super()._is_taken_out(commit, reconcile, before, after, workload)

    def _list_possible(self, first: int) -> list[Mapping[str, Any] | None]:
        """Contents that a manager may record if it knows the content with this number. None: no record."""
        since = [content for _, content in self._contents[first:]]
        if None not in since:
            return since
        return [content for _, content in self._contents]

    def _with_latest(self, workload: Workload) -> Workload:
        """The version with the newest content; without a ConfigMap with the last content that existed."""
        existing = [content for _, content in self._contents if content is not None]
        return _with_content(workload, existing[-1] if existing else None)


def _find_known(reconcile: Reconcile) -> int:
    return reconcile.known.get(CONFIGS, 0)


def _with_content(workload: Workload, config: Mapping[str, Any] | None) -> Workload:
    uses = select_uses(list_config_uses(workload.template), {"all"})
    annotations = (
        {}
        if config is None
        else make_annotations(uses, {("ConfigMap", CONFIG_NAME): digest_content("ConfigMap", config)})
    )
    template = plain(record_content(workload.template, annotations))
    template["metadata"] = {name: value for name, value in template["metadata"].items() if value}
    return msgspec.structs.replace(workload, template=template)
