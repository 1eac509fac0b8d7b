"""Presentation of a kind, declared once: the paths of its fields, its verbs, and the progress of its objects.

kinds/<kind>/shown.py ──▶ SHOWN ──▶ kubectl kruise, explain, Argo CD, state metrics, the dashboard: they iterate over
kinds

Pure. Imports little, for commands that start fast.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import Number, PhaseRules, Progress, Rollout, progress_of, read_at

Document = Mapping[str, Any]
Path = tuple[str, ...]


class Field(msgspec.Struct, frozen=True):
    """Dotted path of a field in the hub version, and in v1alpha1 if that differs."""

    hub: str
    v1alpha1: str = ""

    def find_path(self, document: Document) -> Path:
        """Return its path in a document of that version."""
        is_old = str(document.get("apiVersion", "")).endswith("/v1alpha1")
        return tuple((self.v1alpha1 if is_old and self.v1alpha1 else self.hub).split("."))

    def read_value(self, document: Document) -> Any:
        """Return the value of the field; None: absent."""
        return get_path(document, *self.find_path(document))


class Cell(msgspec.Struct, frozen=True):
    """A column of `kubectl kruise get all`: a dotted path, a number, a phase, or a function of the object."""

    head: str
    value: str | Number | Callable[[Document], Any]
    default: Any = "0"

    def read_cell(self, document: Document) -> Any:
        """Return the cell in the row of this object."""
        if isinstance(self.value, Number):
            return self.value.of(document)
        if not isinstance(self.value, str):
            return self.value(document)
        result = read_at(document, self.value)
        return self.default if result is None else result


class Verbs(msgspec.Struct, frozen=True, kw_only=True):
    """Verbs of `kubectl kruise` that a kind supports in addition to those of its fields, and their details."""

    restart: Literal["", "annotation", "env"] = ""
    history: Literal["", "replicasets", "revisions"] = ""
    """Objects that store revisions; empty: the kind has no history and no rollback."""
    restored: str = "spec.template"
    """Path that a rollback replaces. A revision's data has it under the same path, or has all fields of the spec."""
    revision_label: str = ""
    """Label of revisions for a kind without a selector; its value is the object's name."""
    scales: bool = False
    exposes: bool = False
    victims: Literal["", "podsToDelete", "label"] = ""
    """Method to select the pods that a scale-down deletes."""
    resumed: bool | None = False
    """Value of the field `paused` after resume; None: absent."""
    strategy: Field | None = None
    """Field that `set update-strategy` writes."""
    strategies: tuple[str, ...] = ()
    """Accepted values of the strategy."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Series `kruise_<controller>_<name>` of each object, with the names of kruise-state-metrics. The amounts of an
    update strategy come from the kind's fields.
    """

    counts: Mapping[str, Number] = {}
    texts: Mapping[str, str] = {}
    """Path of a text by name. The text is the label `value` of a series with the value 1."""
    times: Mapping[str, Callable[[Document], float | None]] = {}
    """Function by name, which returns a time in Unix seconds from the object's document; None: there is no such time
    now.
    """
    has_conditions: bool = True
    items: str = ""
    """Path of a list whose items have counts of their own, with their field `name` as the label."""
    item_label: str = ""
    item_counts: Mapping[str, tuple[str, str]] = {}
    """Field of an item and help text of the series, by name."""


TEMPLATE: Final = ("spec.template",)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Presentation of one kind."""

    kind: str
    group: str = "apps.kruise.io"
    title: str = ""
    """Name of the kind in sentences, such as `Advanced StatefulSet`; empty: `kind` is used."""
    progress: Rollout | PhaseRules | None = None
    """Rules of its progress; None: there is nothing to wait for."""
    line: Callable[[Document, Progress], str] | None = None
    """Line of `rollout status`; None: the details in a sentence."""
    is_observed: bool = True
    """Whether its status has observedGeneration; without a status, no controller has seen the object yet."""
    board: Literal["rollouts", "jobs", "others"] = "others"
    """The page of the dashboard that lists it."""
    place: int = 1_000
    """Position among the tables of `get all`, in ascending order."""
    columns: tuple[Cell, ...] = ()
    """Columns between NAME and AGE in `get all`."""
    fields: Mapping[str, Field] = {}
    """Fields that `plan --set` can change. `paused`, `partition`, `maxUnavailable` and `maxSurge` also enable the
    verbs that change them.
    """
    partitions: Field | None = None
    """Map of partitions, for a kind with a partition for each of its parts."""
    parts: str = ""
    """Path of the list of its parts, each with a name."""
    templates: tuple[str, ...] = ()
    """Paths of its pod templates; an object need not have all of them."""
    has_fixed_template: bool = False
    """Whether admission rejects a changed pod template, so that no image can be set."""
    pod_spec: str = ""
    """Path of a pod spec without a template."""
    verbs: Verbs = Verbs()
    metrics: Metrics | None = None
    is_made_for_nodes: bool = False
    """Whether managers create one object for each node: healthy ones are counted and not listed."""
    is_per_node: bool = False
    """Whether its pods belong to nodes."""
    pods: Literal["owned", "selected", "marked"] = "owned"
    """Selection of its pods: `owned` by it or by one of its objects; `selected` by it and named in `pod_mark`; or
    `marked`: named in `pod_mark`.
    """
    pod_mark: str = ""
    """Annotation of pods with the names of this kind's objects."""
    keeps_images: bool = False
    """Whether it has the images of a node, in spec.images and status.imageStatuses."""
    pulls_image: bool = False
    """Whether it pulls the image in spec.image on nodes."""

    def progress_of(self, document: Document) -> Progress:
        """Return the progress of an object, for a kind that declares it."""
        assert self.progress is not None, f"{self.kind} declares no progress"
        partition, paused = self.fields.get("partition"), self.fields.get("paused")
        return progress_of(
            self.progress,
            document,
            is_observed=self.is_observed,
            partition=None if partition is None else partition.read_value(document),
            is_paused=paused is not None and paused.read_value(document) is True,
        )

    def line_of(self, document: Document, progress: Progress) -> str:
        """Return the progress in one line."""
        name = quote_text(str(document["metadata"]["name"]))
        if not progress.is_observed:
            return f"Waiting for {self.title or self.kind} spec update to be observed..."
        if self.line is not None:
            return self.line(document, progress)
        if progress.is_done or progress.is_over:
            said = f"{self.title or self.kind} {name} is {progress.phase.lower()}"
            return f"{said}: {progress.details}" if progress.details else said
        return f"Waiting for {self.title or self.kind} {name}: {progress.details}..."
