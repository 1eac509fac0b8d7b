"""Settings of a manager as one frozen value; manager/flags.py reads them from a command line.

Times are in seconds. The defaults are OpenKruise's, except where a field says otherwise. "pykruise's own" marks
settings that OpenKruise does not have.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.gates import Gates
from pykruise.kube.election.key_slots import Keying
from pykruise.kube.program.logs import LogSettings
from pykruise.kube.program.serving import STOP_S as SERVER_STOP_S
from pykruise.kube.program.serving import Address
from pykruise.kube.schemas.releases import minor_of, number_of
from pykruise.plans.kind import Kind
from pykruise.pods.settings import build_settings
from pykruise.runtime.assemble import Tuning
from pykruise.runtime.operator import EVENTS_S, RELEASE_S

SECRETS_NAMESPACE = "kruise-daemon-config"
NAMESPACE = "kruise-system"

GRACE_PERIOD_S: Final = 30
"""Seconds from SIGTERM to SIGKILL for the pods of managers (terminationGracePeriodSeconds), as installed."""

WEBHOOK_STOP_S: Final = 5.0
"""Maximum seconds for reviews in progress when the webhook server stops."""


class ElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Election among several managers. See kube/election/leases.py."""

    enabled: bool = True
    namespace: str = NAMESPACE
    name: str = "kruise-manager"
    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0
    shards: int = 1
    """Number of managers that share the work; 1: the leader does all of it. pykruise's own."""
    shard_by: Keying = "object"
    """Unit by which managers share work (kube/election/key_slots.py). pykruise's own."""


class ServingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses on which probes, metrics and diagnosis are served over plain HTTP; None: they are not served."""

    metrics: Address | None = Address("", 8080)
    health: Address | None = Address("", 8000)
    diagnosis: Address | None = Address("", 8090)
    state: bool = False
    """Whether metrics of the objects' state are served too (state_metrics.py). pykruise's own."""
    state_namespaces: tuple[str, ...] = ()
    """Namespaces of the state metrics; empty: all."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of admission from the environment and the command line."""

    enabled: bool = True
    """pykruise's own. Without webhooks, objects get only the defaults and the validation of the schemas."""
    bind: Address | None = None
    """pykruise's own: address of the server; None: all interfaces and `port`."""
    client_authority: str = ""
    """pykruise's own: a file (PEM) with CA certificates. Only clients with a certificate from one of these CAs get
    responses to reviews.
    """
    host: str = ""
    """WEBHOOK_HOST: webhooks are registered with a URL of this host instead of the Service."""
    port: int = 9876
    certificate_folder: str = "/tmp/kruise-webhook-certs"
    certificate_writer: str = ""
    secret: str = "kruise-webhook-certs"
    service: str = "kruise-webhook-service"
    renew_before: str = ""
    """CERTS_RENEW_BEFORE as written: `30d`, `6m`, `1y`; empty: the default."""
    initialize_timeout_s: float = 60.0
    allow_privileged: bool = True
    """Whether pod templates may contain privileged containers."""
    protection_log_folder: str = "/log"


_FIRST_WITH_STABLE_RESIZE: Final = "1.35"
_FIRST_WITH_POD_RESIZE: Final = "1.36"


class ManagerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of one manager. `read_kind_settings(kind)` returns those of a kind."""

    gates: Gates = Gates()
    is_known: bool = False
    """Whether these are the settings of the cluster's manager. If False, they are flags of this command and defaults,
    and the manager may have other settings.
    """
    flags: Mapping[str, Any] = {}
    """Values of the kinds' own flags (pods/settings.py: `FromFlag`), by name; an absent flag has its default."""
    kubernetes: str = ""
    """Minor version of the API server, or the nearest known version; empty: the version is unknown, and no newer
    features are used.
    """
    further_fields: frozenset[tuple[str, str]] = frozenset()
    """Definition and name of each field that only a newer API server knows (schemas/served_fields.py)."""
    uses_resize: bool = True
    """Whether the API server serves `pods/resize`."""
    tuning: Tuning = Tuning()
    ready_conditions: bool = True
    """Whether workloads report Ready, Reconciling and Stalled (runtime/kstatus.py). pykruise's own."""
    watch_namespace: str = ""
    """The namespace whose objects are reconciled; empty: all."""
    own_namespace: str = NAMESPACE
    """POD_NAMESPACE: namespace of this manager's Secret, Service and configuration."""
    time_zone: str = "UTC"
    """TZ: IANA name of the time zone for schedules that name none."""
    resync_s: float | None = None
    """Seconds until every object is reconciled again although nothing changed; None: never. The default of the command
    line is OpenKruise's 10 hours.
    """
    cache_sync_timeout_s: float = 120.0
    """Seconds that caches may take to sync before an error is logged (the wait continues)."""
    secrets_namespace: str = SECRETS_NAMESPACE
    """KRUISE_DAEMON_CONFIG_NS: namespace in which agents of nodes find the secrets for image pulls."""
    election: ElectionSettings = ElectionSettings()
    serving: ServingSettings = ServingSettings()
    webhook: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
    watchdog_s: float = 30.0
    """Seconds that the event loop may be blocked before the process is ended; 0: unlimited. pykruise's own."""
    stop_grace_s: float = 8.0
    """Maximum seconds for running writes when the process ends; OpenKruise's pods are killed 10 s after SIGTERM."""
    linger_s: float = 0.0
    """Minimum seconds for which webhooks and probes still respond when the process ends, until API servers no longer
    send requests. pykruise's own; the default of the command line is 3 s.
    """
    notes: tuple[str, ...] = ()
    """Notes about the interpretation of flags."""

    @property
    def longest_stop_s(self) -> float:
        """Maximum seconds from a signal to the end of the process: the limits of all steps, in their order."""
        controllers_s = self.stop_grace_s + RELEASE_S + EVENTS_S
        return max(controllers_s, self.linger_s) + WEBHOOK_STOP_S + SERVER_STOP_S

    @property
    def revision_namespace(self) -> str:
        """Namespace for revisions of cluster-scoped objects: the manager's own namespace, or the only namespace that it
        watches.
        """
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
        """Whether a gate is on. A gate that depends on the API server, and that is not set, is on if the API server
        supports the feature. Raises KeyError.
        """
        return self.resizes_containers if self.gates.is_left_to_server(gate) else self.gates[gate]

    def fit_version(self, version: Mapping[str, Any], *, uses_resize: bool) -> "ManagerSettings":
        """Return the settings for an API server of this version (its /version)."""
        return msgspec.structs.replace(self, kubernetes=minor_of(version), uses_resize=uses_resize)

    def read_kind_settings(self, kind: Kind) -> Any:
        """Return the settings of a kind, of its own Settings type."""
        return build_settings(
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
