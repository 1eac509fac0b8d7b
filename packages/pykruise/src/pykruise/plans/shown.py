"""Presentation of a kind: the paths of its fields, its verbs, and the progress of its objects. It is declared once.

kinds/<kind>/shown.py ──▶ SHOWN ──▶ kubectl kruise, explain, Argo CD, state metrics, dashboard (for all kinds)

Pure. This module has few imports, so that commands start fast.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import Condition, Number, PhaseRules, Progress, Rollout, progress_of, read_at

Document = Mapping[str, Any]
Path = tuple[str, ...]


class Field(msgspec.Struct, frozen=True):
    """Dotted path of a field in the hub version, and in v1alpha1 if it differs there."""

    hub: str
    v1alpha1: str = ""

    def find_path(self, document: Document) -> Path:
        """Return the path of the field in the version of the document."""
        is_old = str(document.get("apiVersion", "")).endswith("/v1alpha1")
        return tuple((self.v1alpha1 if is_old and self.v1alpha1 else self.hub).split("."))

    def read_value(self, document: Document) -> Any:
        """Return the value of the field; None if it is absent."""
        return get_path(document, *self.find_path(document))


class Cell(msgspec.Struct, frozen=True):
    """A column of `kubectl kruise get all`. Its value comes from a dotted path, a Number, or a function of the
    object.
    """

    head: str
    value: str | Number | Callable[[Document], Any]
    default: Any = "0"

    def read_cell(self, document: Document) -> Any:
        """Return the value in the row of this object."""
        if isinstance(self.value, Number):
            return self.value.of(document)
        if not isinstance(self.value, str):
            return self.value(document)
        result = read_at(document, self.value)
        return self.default if result is None else result


class Verbs(msgspec.Struct, frozen=True, kw_only=True):
    """Verbs of `kubectl kruise` that a kind supports, in addition to verbs for its fields, and details of these
    verbs.
    """

    restart: Literal["", "annotation", "env"] = ""
    history: Literal["", "replicasets", "revisions"] = ""
    """Objects that store revisions; empty if the kind has no history and no rollback."""
    restored: str = "spec.template"
    """Path of the field that a rollback replaces. `spec.template`: a revision contains the pod template. `spec`: a
    revision contains several fields of the spec, and a rollback replaces these fields.
    """
    revision_label: str = ""
    """Label of revisions, for a kind without a selector. Its value is the object's name."""
    scales: bool = False
    exposes: bool = False
    victims: Literal["", "podsToDelete", "reserveOrdinals"] = ""
    """Method by which a user selects the pods that a scale-in deletes."""
    resumed: bool | None = False
    """Value of the field `paused` after resume; None if the field is removed."""
    strategy: Field | None = None
    """Field that the command `set update-strategy` writes."""
    strategies: tuple[str, ...] = ()
    """Accepted values of this field."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Time series of each object: `kruise_<controller>_<name>`, with the same names as kruise-state-metrics. The
    numbers of an update strategy are read from `Shown.fields`.
    """

    counts: Mapping[str, Number] = {}
    texts: Mapping[str, str] = {}
    """Name of a series → path of a string. The string is the label `value` of the series, whose value is 1."""
    times: Mapping[str, Callable[[Document, str], float | None]] = {}
    """Name of a series → function that returns a time in Unix seconds from the object's document and the manager's time
    zone; None if there is no such time.
    """
    has_conditions: bool = True
    items: str = ""
    """Path of a list whose items have counts. The field `name` of an item is the label of its series."""
    item_label: str = ""
    item_counts: Mapping[str, tuple[str, str]] = {}
    """Name of a series → field of an item, and help text of the series."""


TEMPLATE: Final = ("spec.template",)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Presentation of one kind."""

    kind: str
    group: str = "apps.kruise.io"
    title: str = ""
    """Name of the kind in sentences, such as `Advanced StatefulSet`; if empty, `kind` is used."""
    progress: Rollout | PhaseRules | None = None
    """Rules for the progress; None if objects of this kind have no progress."""
    line: Callable[[Document, Progress], str] | None = None
    """Returns the line of `rollout status`; if None, the line is a sentence with the details."""
    is_observed: bool = True
    """Whether the status has observedGeneration. If so, an object without a status was not observed yet."""
    board: Literal["rollouts", "jobs", "others"] = "others"
    """The page of the dashboard that lists objects of this kind."""
    place: int = 1_000
    """Position among the tables of `get all`, in ascending order."""
    columns: tuple[Cell, ...] = ()
    """Columns between NAME and AGE in `get all`."""
    fields: Mapping[str, Field] = {}
    """Fields that `plan --set` can change. If the kind has `paused`, `partition`, `maxUnavailable` or `maxSurge`, it
    also supports the verbs that change these fields.
    """
    partitions: Field | None = None
    """Field with a map, subset → partition, for a kind that has subsets (UnitedDeployment)."""
    subsets: str = ""
    """Path of the list of subsets, each with a name."""
    templates: tuple[str, ...] = ()
    """Paths of the pod templates. An object does not have to contain all of them."""
    has_fixed_template: bool = False
    """Whether admission rejects changes of the pod template, so that images cannot be changed."""
    pod_spec: str = ""
    """Path of the pod spec, for a kind without a pod template."""
    verbs: Verbs = Verbs()
    metrics: Metrics | None = None
    is_made_for_nodes: bool = False
    """Whether the manager creates one object for each node. Healthy objects are then counted, but not listed."""
    unreported: Condition | None = None
    """A condition that holds while the agent of a node has not reported everything that the node's object requests;
    None for kinds without such objects. The progress alone does not show whether the agent works.
    """
    is_per_node: bool = False
    """Whether each pod is for one node."""
    pods: Literal["owned", "selected", "marked"] = "owned"
    """Rule for the pods that belong to an object. `owned`: pods whose owner is the object, or is another object that
    the object owns.
    `marked`: pods whose annotation `pod_mark` contains the name of the object. `selected`: marked pods that its
    selector also matches.
    """
    pod_mark: str = ""
    """Annotation of pods that contains names of objects of this kind."""
    keeps_images: bool = False
    """Whether the object contains the images of a node, in spec.images and status.imageStatuses."""
    pulls_image: bool = False
    """Whether the object pulls the image in spec.image on nodes."""

    def progress_of(self, document: Document) -> Progress:
        """Return the progress of an object. The kind must declare `progress`."""
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
