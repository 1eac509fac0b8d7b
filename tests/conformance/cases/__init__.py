"""The cases, in groups: each module contains related cases, which are recorded in one file."""

from collections.abc import Mapping
from typing import Final

from conformance.cases import (
    access,
    applies,
    autoscalers,
    bodies,
    custom,
    deletions,
    discovery,
    evictions,
    forms,
    kinds,
    limits,
    namespaces,
    objects,
    patches,
    pods,
    policies,
    selection,
    templates,
    versions,
    watches,
    webhooks,
    workloads,
)
from conformance.dsl import Case

_MODULES: Final = (
    objects,
    bodies,
    patches,
    selection,
    watches,
    deletions,
    pods,
    evictions,
    workloads,
    limits,
    kinds,
    custom,
    forms,
    discovery,
    namespaces,
    applies,
    webhooks,
    versions,
    access,
    policies,
    autoscalers,
    templates,
)

GROUPS: Final[Mapping[str, tuple[Case, ...]]] = {
    module.__name__.rpartition(".")[2]: tuple(module.CASES) for module in _MODULES
}
