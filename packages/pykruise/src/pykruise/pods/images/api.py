"""Parts of API objects that the kinds about images share: the images to pull, their nodes and the pull settings.

kinds/imagepulljob, imagelistpulljob, nodeimage ──▶ these types
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
    """Metadata of the pod sandbox that is passed to the container runtime for a pull."""

    annotations: dict[str, str] | None = None
    """Annotations of the sandbox."""
    labels: dict[str, str] | None = None
    """Labels of the sandbox."""


class PullPolicy(Typed, frozen=True, kw_only=True):
    """Limits of the attempts to pull an image on a node."""

    backoff_limit: Int32 | None = None
    """Number of retries after the first attempt. Defaults to 3."""
    timeout_seconds: Int32 | None = None
    """Timeout of one attempt in seconds. Defaults to 600."""


class CompletionPolicy(Typed, frozen=True, kw_only=True):
    """Determines when the job ends."""

    active_deadline_seconds: Int64 | None = None
    """Seconds from the start of the job until it fails if it has not ended. Must not be set with type Never."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds from the end of the job until it is deleted. Without this field, the job is kept. Must not be set with
    type Never.
    """
    type: str = ""
    """Always (the default): the job ends when all nodes have finished. Never: the job continues with nodes that are
    added later, and pulls again about once a day.
    """


class ImageNodeSelector(Typed, frozen=True, kw_only=True):
    """Selects nodes by names or by labels."""

    match_expressions: Annotated[list[LabelSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on the labels of nodes. A node must satisfy all of them."""
    match_labels: dict[str, str] | None = None
    """Labels that a node must have with exactly these values."""
    names: list[str] | None = None
    """Names of nodes. Must not be combined with conditions on labels."""


class PullSpec(Typed, frozen=True, kw_only=True):
    """Nodes on which images are pulled, and the pull settings."""

    completion_policy: CompletionPolicy
    image_pull_policy: str = ""
    """IfNotPresent (the default) or Always, which pulls an image even if it is present."""
    parallelism: IntOrString | None = None
    """Number of nodes that pull at the same time. Defaults to 1; 0 pauses the job. Percentages are not accepted."""
    pod_selector: Selector | None = None
    """Selects pods in the job's namespace; images are pulled on their nodes. Must not be combined with selector."""
    pull_policy: PullPolicy | None = None
    pull_secrets: list[str] | None = None
    """Names of secrets in the job's namespace that are used for pulling. Immutable."""
    sandbox_config: SandboxConfig | None = None
    selector: Annotated[ImageNodeSelector, schema(map_type="atomic")] | None = None
    """Selects the nodes. Defaults to all nodes."""


class ImagePullJobSpec(PullSpec, frozen=True, kw_only=True):
    """Desired state of the job."""

    image: str
    """Image to pull, written like the image of a container."""


class ImagePullJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    active: Int32 = 0
    """Nodes that are pulling."""
    completion_time: Time | None = None
    """Time when the job ended."""
    desired: Count = 0
    """Nodes that should have the image."""
    failed: Int32 = 0
    """Nodes where pulling failed."""
    failed_nodes: list[str] | None = None
    """Names of the nodes where pulling failed."""
    message: str = ""
    """Human-readable details."""
    start_time: Time | None = None
    """Time when the controller first processed the job."""
    succeeded: Int32 = 0
    """Nodes that have the image."""
