"""Parts of API objects that the kinds about images share: what to pull where, and how.

kinds/imagepulljob, imagelistpulljob, nodeimage ──▶ these
"""

from typing import Annotated

from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import (
    Count,
    Int32,
    Int64,
    IntOrString,
    LabelSelectorRequirement,
    Selector,
    Status,
    Time,
    Typed,
)


class SandboxConfig(Typed, frozen=True, kw_only=True):
    """Facts about the pulling pod for the container runtime."""

    annotations: dict[str, str] | None = None
    """Annotations of that pod."""
    labels: dict[str, str] | None = None
    """Labels of that pod."""


class PullPolicy(Typed, frozen=True, kw_only=True):
    """How often and how long pulling is tried on a node."""

    backoff_limit: Int32 | None = None
    """Tries after the first one; 3 by default."""
    timeout_seconds: Int32 | None = None
    """Seconds that one try may take; 600 by default."""


class CompletionPolicy(Typed, frozen=True, kw_only=True):
    """When the job is over."""

    active_deadline_seconds: Int64 | None = None
    """Seconds from its start after which a job that is not over has failed. Not with type Never."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after its end at which the job is deleted; it is kept by default. Not with type Never."""
    type: str = ""
    """Always (the default): the job ends when all nodes are done. Never: it goes on for nodes that come later,
    and pulls again about once a day."""


class ImageNodeSelector(Typed, frozen=True, kw_only=True):
    """Selects nodes, by names or by labels."""

    match_expressions: Annotated[list[LabelSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on the labels of nodes, all of which must hold."""
    match_labels: dict[str, str] | None = None
    """Labels that a node must have with exactly these values."""
    names: list[str] | None = None
    """Names of nodes; excludes conditions on labels."""


class PullSpec(Typed, frozen=True, kw_only=True):
    """Where images are pulled, and how."""

    completion_policy: CompletionPolicy
    image_pull_policy: str = ""
    """IfNotPresent (the default), or Always: pull also where the image is present."""
    parallelism: IntOrString | None = None
    """Nodes that pull at once; 1 by default, 0 pauses. Shares are not accepted."""
    pod_selector: Selector | None = None
    """Labels of pods of the namespace: their nodes are meant. Excludes selector."""
    pull_policy: PullPolicy | None = None
    pull_secrets: list[str] | None = None
    """Names of secrets of the namespace, used for pulling. Cannot be changed."""
    sandbox_config: SandboxConfig | None = None
    selector: Annotated[ImageNodeSelector, schema(map_type="atomic")] | None = None
    """The nodes; all by default."""


class ImagePullJobSpec(PullSpec, frozen=True, kw_only=True):
    """Desired state of the job."""

    image: str
    """The image, as a container names it."""


class ImagePullJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    active: Int32 = 0
    """Nodes that are pulling."""
    completion_time: Time | None = None
    """When the job ended."""
    desired: Count = 0
    """Nodes that are to have the image."""
    failed: Int32 = 0
    """Nodes where pulling failed."""
    failed_nodes: list[str] | None = None
    """Names of the nodes where pulling failed."""
    message: str = ""
    """Details for people."""
    start_time: Time | None = None
    """When the job was first seen."""
    succeeded: Int32 = 0
    """Nodes that have the image."""
