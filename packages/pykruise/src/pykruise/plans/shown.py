"""A kind shows itself once: where its fields are, which verbs it takes, how far an object of it is.

kinds/<kind>/shown.py ──▶ SHOWN ──▶ kubectl kruise, explain, Argo CD, state metrics, the dashboard: they loop over kinds

Pure, and light, for commands that start at once.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quoted
from pykruise.plans.progress import Number, PhaseRules, Progress, Rollout, progress_of, read_at

Document = Mapping[str, Any]
Path = tuple[str, ...]


class Field(msgspec.Struct, frozen=True):
    """Where a field is, in the hub version and in v1alpha1 where that differs. Dotted paths."""

    hub: str
    v1alpha1: str = ""

    def at(self, document: Document) -> Path:
        """Where it is in a document of that version."""
        is_old = str(document.get("apiVersion", "")).endswith("/v1alpha1")
        return tuple((self.v1alpha1 if is_old and self.v1alpha1 else self.hub).split("."))

    def value(self, document: Document) -> Any:
        """Value of the field; None: absent."""
        return get_path(document, *self.at(document))


class Cell(msgspec.Struct, frozen=True):
    """A column of `kubectl kruise get all`: a dotted path, a number, a phase, or a function of the object."""

    head: str
    value: str | Number | Callable[[Document], Any]
    default: Any = "0"

    def of(self, document: Document) -> Any:
        """Cell in the row of this object."""
        if isinstance(self.value, Number):
            return self.value.of(document)
        if not isinstance(self.value, str):
            return self.value(document)
        result = read_at(document, self.value)
        return self.default if result is None else result


class Verbs(msgspec.Struct, frozen=True, kw_only=True):
    """Which verbs of `kubectl kruise` a kind takes besides those that its fields give it, and how they work."""

    restart: Literal["", "annotation", "env"] = ""
    history: Literal["", "replicasets", "revisions"] = ""
    """Where revisions are kept: it has a history, and can be rolled back."""
    restored: str = "spec.template"
    """Path that a rollback replaces; a revision stores it under the same path in its data, or all of spec's fields."""
    revision_label: str = ""
    """Label of revisions of an object without selector; its value is the object's name."""
    scales: bool = False
    exposes: bool = False
    victims: Literal["", "podsToDelete", "label"] = ""
    """How chosen pods are scaled away."""
    resumed: bool | None = False
    """Value of the field `paused` after resume; None: absent."""
    strategy: Field | None = None
    """Path that `set update-strategy` writes."""
    strategies: tuple[str, ...] = ()
    """Accepted values of the strategy."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Series `kruise_<controller>_<name>` of each object, as kruise-state-metrics names them. Amounts of an update
    strategy are taken from the fields of the kind."""

    counts: Mapping[str, Number] = {}
    texts: Mapping[str, str] = {}
    """Name → path of a text, which becomes the label `value` of a series that is 1."""
    times: Mapping[str, Callable[[Document], float | None]] = {}
    """Name → a point of time in Unix seconds, of the object's document; None: there is none now."""
    has_conditions: bool = True
    items: str = ""
    """Path of a list whose items have counts of their own, labelled by their field `name`."""
    item_label: str = ""
    item_counts: Mapping[str, tuple[str, str]] = {}
    """Name → field of an item, and what the series says."""


TEMPLATE: Final = ("spec.template",)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind shows itself."""

    kind: str
    group: str = "apps.kruise.io"
    title: str = ""
    """As sentences about an object call it, such as `Advanced StatefulSet`; empty: as its kind is called."""
    progress: Rollout | PhaseRules | None = None
    """None: nothing is to be waited for."""
    line: Callable[[Document, Progress], str] | None = None
    """As `rollout status` says it; None: the details, in a sentence."""
    is_observed: bool = True
    """Whether its status says which generation it is about; without a status nothing has looked at it yet."""
    board: Literal["rollouts", "jobs", "others"] = "others"
    """The page of the dashboard that lists it."""
    place: int = 1_000
    """Among the tables of `get all`, from the smallest."""
    columns: tuple[Cell, ...] = ()
    """Between NAME and AGE in `get all`."""
    fields: Mapping[str, Field] = {}
    """Fields that `plan --set` can change. `paused`, `partition`, `maxUnavailable` and `maxSurge` give the verbs that
    change them, too."""
    partitions: Field | None = None
    """Map of partitions, for a kind with a partition for each of its parts."""
    parts: str = ""
    """Where its parts are listed, each with a name."""
    templates: tuple[str, ...] = ()
    """Pod templates; those that an object does not have do not count."""
    has_fixed_template: bool = False
    """Whether admission refuses another pod template: no image is set."""
    pod_spec: str = ""
    """Path of a pod spec without a template."""
    verbs: Verbs = Verbs()
    metrics: Metrics | None = None
    is_made_for_nodes: bool = False
    """Whether managers make one for each node: those that are well are counted and not listed."""
    is_per_node: bool = False
    """Whether its pods belong to nodes."""
    pods: Literal["owned", "selected", "marked"] = "owned"
    """Its pods: those that it, or something of it, owns; those that it selects and `pod_mark` names it on; those that
    `pod_mark` names it on."""
    pod_mark: str = ""
    """Annotation of pods that names objects of this kind."""
    keeps_images: bool = False
    """Whether it keeps the images of a node, in spec.images and status.imageStatuses."""
    pulls_image: bool = False
    """Whether it has nodes pull the image in spec.image."""

    def progress_of(self, document: Document) -> Progress:
        """How far an object is, of a kind that says so."""
        assert self.progress is not None, f"{self.kind} declares no progress"
        partition, paused = self.fields.get("partition"), self.fields.get("paused")
        return progress_of(
            self.progress,
            document,
            is_observed=self.is_observed,
            partition=None if partition is None else partition.value(document),
            is_paused=paused is not None and paused.value(document) is True,
        )

    def line_of(self, document: Document, progress: Progress) -> str:
        """How far it is, in one line."""
        name = quoted(str(document["metadata"]["name"]))
        if not progress.is_observed:
            return f"Waiting for {self.title or self.kind} spec update to be observed..."
        if self.line is not None:
            return self.line(document, progress)
        if progress.is_done or progress.is_over:
            said = f"{self.title or self.kind} {name} is {progress.phase.lower()}"
            return f"{said}: {progress.details}" if progress.details else said
        return f"Waiting for {self.title or self.kind} {name}: {progress.details}..."
