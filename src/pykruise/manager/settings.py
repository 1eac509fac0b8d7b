"""What can be set about a manager, as one frozen value; manager/flags.py makes it of a command line.

Times are in seconds. The defaults are OpenKruise's, except where a field says otherwise.
"""

from typing import Literal

import msgspec

from pykruise.kinds.cloneset.snapshot import Settings as CloneSetSettings
from pykruise.kinds.daemonset.snapshot import Settings as DaemonSetSettings
from pykruise.kinds.gates import Gates
from pykruise.kinds.statefulset.snapshot import Settings as StatefulSetSettings
from pykruise.plans.reconcile import Tuning

__all__ = [
    "Address",
    "ElectionSettings",
    "LogSettings",
    "ServingSettings",
    "Settings",
    "WebhookSettings",
    "cloneset_settings",
    "daemonset_settings",
    "statefulset_settings",
]

NAMESPACE = "kruise-system"


class Address(msgspec.Struct, frozen=True):
    """Where a server listens. An empty host means all interfaces; port 0 any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class ElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who of several managers works. See kube/leases.py."""

    enabled: bool = True
    namespace: str = NAMESPACE
    name: str = "kruise-manager"
    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0


class ServingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Plain HTTP for probes, metrics and diagnosis; None: not served."""

    metrics: Address | None = Address("", 8080)
    health: Address | None = Address("", 8000)
    diagnosis: Address | None = Address("", 8090)


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What admission needs to know of the environment and the command line."""

    enabled: bool = True
    """pykruise's own: without webhooks nothing is defaulted or checked beyond what the schemas say."""
    bind: Address | None = None
    """pykruise's own: where they are served; None: at all interfaces and `port`."""
    client_authority: str = ""
    """pykruise's own: a file (PEM); reviews are answered only to clients with a certificate of its authorities."""
    host: str = ""
    """WEBHOOK_HOST: webhooks are registered by URL with this host, not through the Service."""
    port: int = 9876
    certificate_folder: str = "/tmp/kruise-webhook-certs"
    certificate_writer: str = ""
    secret: str = "kruise-webhook-certs"
    service: str = "kruise-webhook-service"
    renew_before: str = ""
    """CERTS_RENEW_BEFORE as it is written: `30d`, `6m`, `1y`; empty: the default."""
    initialize_timeout_s: float = 60.0
    allow_privileged: bool = True
    protection_log_folder: str = "/log"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is logged and how it looks."""

    format: Literal["text", "json"] = "text"
    verbosity: int = 0
    """From 5 on, debug lines too."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one manager."""

    gates: Gates = Gates()
    cloneset: CloneSetSettings = CloneSetSettings()
    """What CloneSet plans with; `cloneset_settings` makes it of gates."""
    daemonset: DaemonSetSettings = DaemonSetSettings()
    """What DaemonSet plans with; `daemonset_settings` makes it of gates."""
    statefulset: StatefulSetSettings = StatefulSetSettings()
    """What StatefulSet plans with; `statefulset_settings` makes it of gates."""
    tuning: Tuning = Tuning()
    watch_namespace: str = ""
    """Only objects of this namespace are worked on; empty: of all."""
    own_namespace: str = NAMESPACE
    """POD_NAMESPACE: where the Secret, the Service and the configuration of this manager are."""
    resync_s: float | None = None
    """How often every object is looked at again although nothing changed; None: never."""
    cache_sync_timeout_s: float = 120.0
    """How long caches may take to fill before that is called an error (the wait goes on)."""
    default_image_ttl_s: int = 300
    """ttlSecondsAfterFinished of image pulls with policy Always."""
    node_image_delay_s: float = 30.0
    assign_daemon_pods_by_scheduler: bool = True
    assign_broadcast_pods_by_scheduler: bool = True
    versioned_status_kinds: tuple[str, ...] = ("deployment", "replicaset")
    election: ElectionSettings = ElectionSettings()
    serving: ServingSettings = ServingSettings()
    webhook: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
    watchdog_s: float = 30.0
    """An event loop that does not turn for this long is ended; 0: never. pykruise's own."""
    stop_grace_s: float = 8.0
    """How long writes in flight may take at the end; a pod of OpenKruise's is killed 10 s after SIGTERM."""
    linger_s: float = 0.0
    """How long webhooks and probes go on at the end, at least: until API servers have heard that they go."""
    notes: tuple[str, ...] = ()
    """What a person should know about how the flags were understood."""

    @property
    def revision_namespace(self) -> str:
        """Where revisions of cluster-wide objects are kept: its own namespace, or the only one that it watches."""
        return self.watch_namespace or self.own_namespace

    def with_resize(self, is_served: bool) -> "Settings":
        """These settings for an API server that serves `pods/resize`, or does not."""
        return msgspec.structs.replace(
            self,
            cloneset=msgspec.structs.replace(self.cloneset, uses_resize=is_served),
            daemonset=msgspec.structs.replace(self.daemonset, uses_resize=is_served),
            statefulset=msgspec.structs.replace(self.statefulset, uses_resize=is_served),
        )


def cloneset_settings(
    gates: Gates, *, exclude_preparing_delete: bool = False, uses_resize: bool = True
) -> CloneSetSettings:
    """What CloneSet's gates mean for its plans."""
    return CloneSetSettings(
        short_hash=gates["CloneSetShortHash"],
        partition_rollback=gates["CloneSetPartitionRollback"],
        preparing_update_as_update=gates["PreparingUpdateAsUpdate"],
        exclude_preparing_delete=exclude_preparing_delete,
        in_place_env_from_metadata=gates["InPlaceUpdateEnvFromMetadata"],
        in_place_vertical_scaling=gates["InPlaceWorkloadVerticalScaling"],
        recreate_on_claim_change=gates["RecreatePodWhenChangeVCTInCloneSetGate"],
        pre_download=gates["PreDownloadImageForInPlaceUpdate"] and gates["KruiseDaemon"],
        filters_events=gates["CloneSetEventHandlerOptimization"],
        asks_budgets=gates["PodUnavailableBudgetUpdateGate"],
        uses_resize=uses_resize,
    )


def daemonset_settings(
    gates: Gates, *, assign_pods_by_scheduler: bool = True, uses_resize: bool = True
) -> DaemonSetSettings:
    """What DaemonSet's gates mean for its plans."""
    return DaemonSetSettings(
        assign_pods_by_scheduler=assign_pods_by_scheduler,
        prune_ineligible_nodes=gates["DaemonSetPruneIneligibleNodes"],
        in_place_env_from_metadata=gates["InPlaceUpdateEnvFromMetadata"],
        in_place_vertical_scaling=gates["InPlaceWorkloadVerticalScaling"],
        pre_download=gates["PreDownloadImageForDaemonSetUpdate"] and gates["KruiseDaemon"],
        uses_resize=uses_resize,
    )


def statefulset_settings(gates: Gates, *, uses_resize: bool = True) -> StatefulSetSettings:
    """What StatefulSet's gates mean for its plans."""
    return StatefulSetSettings(
        auto_delete_claims=gates["StatefulSetAutoDeletePVC"],
        start_ordinal=gates["StatefulSetStartOrdinal"],
        auto_resize_claims=gates["StatefulSetAutoResizePVCGate"],
        pod_index_label=gates["PodIndexLabel"],
        preparing_update_as_update=gates["PreparingUpdateAsUpdate"],
        in_place_env_from_metadata=gates["InPlaceUpdateEnvFromMetadata"],
        in_place_vertical_scaling=gates["InPlaceWorkloadVerticalScaling"],
        pre_download=gates["PreDownloadImageForInPlaceUpdate"] and gates["KruiseDaemon"],
        uses_resize=uses_resize,
    )
