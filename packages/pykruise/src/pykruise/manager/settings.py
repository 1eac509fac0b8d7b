"""Settings of a manager as one frozen value; manager/flags.py reads them from a command line.

Times are in seconds. The defaults are OpenKruise's, except where a field says otherwise.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.gates import Gates
from pykruise.kube.election.key_slots import Keying
from pykruise.kube.program.logs import LogSettings
from pykruise.kube.program.serving import Address
from pykruise.kube.schemas.releases import minor_of, number_of
from pykruise.plans.kind import Kind
from pykruise.pods.settings import settings_from
from pykruise.runtime.assemble import Tuning

SECRETS_NAMESPACE = "kruise-daemon-config"
NAMESPACE = "kruise-system"


class ElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Election among several managers. See kube/election/leases.py."""

    enabled: bool = True
    namespace: str = NAMESPACE
    name: str = "kruise-manager"
    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0
    shards: int = 1
    """How many managers share the work; 1: the leader does all of it. pykruise's own."""
    shard_by: Keying = "object"
    """Unit by which managers share work (kube/election/key_slots.py)."""


class ServingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Plain HTTP for probes, metrics and diagnosis; None: not served."""

    metrics: Address | None = Address("", 8080)
    health: Address | None = Address("", 8000)
    diagnosis: Address | None = Address("", 8090)
    state: bool = False
    """Whether the state of objects is served beside the metrics (state_metrics.py)."""
    state_namespaces: tuple[str, ...] = ()
    """Namespaces of the state metrics; empty: all."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of admission from the environment and the command line."""

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


_FIRST_WITH_STABLE_RESIZE: Final = "1.35"
_FIRST_WITH_POD_RESIZE: Final = "1.36"


class ManagerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one manager. What a kind is to go by is `of(kind)`."""

    gates: Gates = Gates()
    flags: Mapping[str, Any] = {}
    """Values of flags that are a kind's own (pods/settings.py: `FromFlag`), by name; others have their defaults."""
    kubernetes: str = ""
    """The minor of the API server, the nearest of those that are known; empty: it has not been asked, and nothing
    hangs on what newer ones can do."""
    further_fields: frozenset[tuple[str, str]] = frozenset()
    """Definition and field of what a newer API server knows besides (schemas/served_fields.py)."""
    uses_resize: bool = True
    """Whether the API server serves `pods/resize`."""
    tuning: Tuning = Tuning()
    ready_conditions: bool = True
    """Whether workloads report Ready, Reconciling and Stalled (runtime/kstatus.py). pykruise's own."""
    watch_namespace: str = ""
    """Only objects of this namespace are worked on; empty: of all."""
    own_namespace: str = NAMESPACE
    """POD_NAMESPACE: where the Secret, the Service and the configuration of this manager are."""
    time_zone: str = "UTC"
    """TZ: of schedules that say none, by its IANA name."""
    resync_s: float | None = None
    """How often every object is looked at again although nothing changed; None: never."""
    cache_sync_timeout_s: float = 120.0
    """How long caches may take to fill before that is called an error (the wait goes on)."""
    secrets_namespace: str = SECRETS_NAMESPACE
    """KRUISE_DAEMON_CONFIG_NS: where agents of nodes find the secrets that images are pulled with."""
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
    """Notes about how the flags were understood."""

    @property
    def revision_namespace(self) -> str:
        """Where revisions of cluster-wide objects are kept: its own namespace, or the only one that it watches."""
        return self.watch_namespace or self.own_namespace

    @property
    def resizes_containers(self) -> bool:
        """Whether containers are resized in place by default: the feature is stable since Kubernetes 1.35."""
        return self.uses_resize and self._is_at_least(_FIRST_WITH_STABLE_RESIZE)

    @property
    def resizes_pods(self) -> bool:
        """Whether `spec.resources` of a running pod can change: since Kubernetes 1.36."""
        return self.uses_resize and self._is_at_least(_FIRST_WITH_POD_RESIZE)

    def _is_at_least(self, minor: str) -> bool:
        return bool(self.kubernetes) and number_of(self.kubernetes) >= number_of(minor)

    def is_on(self, gate: str) -> bool:
        """Whether a gate is on. One that is left to the API server is on where that can. Raises KeyError."""
        return self.resizes_containers if self.gates.is_left_to_server(gate) else self.gates[gate]

    def fitted(self, version: Mapping[str, Any], *, uses_resize: bool) -> "ManagerSettings":
        """The settings for an API server of this version (its /version)."""
        return msgspec.structs.replace(self, kubernetes=minor_of(version), uses_resize=uses_resize)

    def of(self, kind: Kind) -> Any:
        """Settings of a kind: its own Settings type."""
        return settings_from(
            kind.settings,
            gates=self.is_on,
            flags=self.flags,
            manager={
                "own_namespace": self.own_namespace,
                "watch_namespace": self.watch_namespace,
                "time_zone": self.time_zone,
                "secrets_namespace": self.secrets_namespace,
                "revision_namespace": self.revision_namespace,
                "uses_resize": self.uses_resize,
                "resizes_pods": self.resizes_pods,
            },
        )
