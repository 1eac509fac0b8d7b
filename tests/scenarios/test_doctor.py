"""`pykruise doctor`: staged broken installations, each with the fault it must name and the fix it must offer.

The cluster is the sandbox with everything installed; what a manager would have filled in is written by hand, so
that each test can break one thing.
"""

import asyncio
import base64
import functools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from pykruise.admission.certificate_work import renew_certificates
from pykruise.admission.certificates import Certificates
from pykruise.admission.configurations import MUTATING, MUTATING_NAME, VALIDATING, VALIDATING_NAME
from pykruise.admission.pods.chain import CONDITION
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.gates import Gates
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Response
from pykruise.kube.clock import format_micro_time
from pykruise.kube.documents import Document, decode, deep_copy
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from pykruise.kube.schemas.releases import MINORS
from pykruise.manager.doctor.examine import CHECKS, examine
from pykruise.manager.doctor.findings import Finding, FindingLevel
from pykruise.manager.doctor.live import Live
from pykruise.manager.doctor.webhooks import ENDPOINT_SLICES
from pykruise.manager.install import Installation, build_manifests
from pykruise.manager.roles import build_roles
from support.external_certificates import provide_certificates
from support.faults import Answer, FaultyTransport, Refuse, Request, requests
from support.rbac import Authorizer
from support.sandbox import Place, owned_by, pod, small_cluster
from support.scenario import cloneset

pytestmark = pytest.mark.sandbox_only

SYSTEM = "kruise-system"
HOST = "kruise-webhook-service.kruise-system.svc"

_RESOURCES = {
    "Namespace": NAMESPACES,
    "CustomResourceDefinition": CUSTOM_RESOURCE_DEFINITIONS,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Service": SERVICES,
    "Deployment": DEPLOYMENTS,
    "MutatingWebhookConfiguration": MUTATING,
    "ValidatingWebhookConfiguration": VALIDATING,
}


class Patient:
    """An installation that is healthy until a test breaks it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.client = place.client
        self.faulty = FaultyTransport(place.cluster.make_transport("kubernetes-admin"))
        self.skew_s = 0.0
        self.authorizer = Authorizer(build_roles(Gates(), namespace=SYSTEM))
        self.faulty.on(requests("POST", path="subjectaccessreviews"), self._review)
        self.faulty.on(requests("GET", path="/version"), self._version)
        self.version = "v1.32.0"
        self.admission: Answer | None = None
        self.faulty.on(requests("POST", path="/clonesets"), self._admit)

    # ── what the sandbox does not report ─────────────────────────────────────

    def _review(self, request: Request) -> Answer:
        attributes = request.to_document["spec"]["resourceAttributes"]
        resource = attributes["resource"] + (
            f"/{attributes['subresource']}" if attributes["subresource"] else ""
        )
        allowed = self.authorizer.allows(
            attributes["verb"],
            attributes["group"],
            resource,
            namespace=attributes["namespace"],
            name=attributes["name"],
        )
        return Answer(201, body=json.dumps({"status": {"allowed": allowed}}).encode())

    def _version(self, _request: Request) -> "_Dated":
        return _Dated(self.version, self.place.cluster.clock() + self.skew_s)

    def _admit(self, request: Request) -> Answer:
        assert request.query["dryRun"] == "All", "a doctor writes nothing"
        return self.admission or Answer(201, body=b'{"metadata": {"name": "trial"}}')

    # ── life ─────────────────────────────────────────────────────────────────

    async def examine(self) -> list[Finding]:
        before = await self._versions()
        client = Client(self.faulty, clock=self.place.cluster.clock, retry=RetryPolicy(reads=0, writes=0))
        findings = await examine(Live(client, namespace=SYSTEM, clock=self.place.cluster.clock))
        assert await self._versions() == before, "a doctor changes nothing"
        return findings

    async def _versions(self) -> dict[tuple[str, str], str]:
        versions = {}
        for resource in (MUTATING, VALIDATING, CUSTOM_RESOURCE_DEFINITIONS, SECRETS, LEASES):
            for raw in (await self.client.list(resource)).items:
                metadata = decode(raw)["metadata"]
                versions[str(resource), metadata["name"]] = metadata["resourceVersion"]
        return versions

    async def change(
        self,
        resource: Resource,
        name: str,
        patch: Document,
        *,
        namespace: str = SYSTEM,
        subresource: str = "",
    ) -> None:
        where = namespace if resource.namespaced else ""
        await self.client.patch(
            resource, where, name, patch, patch_type=PatchType.MERGE, subresource=subresource
        )

    async def remove(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, SYSTEM if resource.namespaced else "", name)

    async def entries(self, resource: Resource, name: str, edit: Callable[[Document], None]) -> None:
        """Change every entry of a webhook configuration."""
        entries = decode(await self.client.get(resource, "", name))
        for entry in entries["webhooks"]:
            edit(entry)
        await self.client.update(resource, "", name, entries)


class _Dated(Answer):
    """An answer to /version with the API server's time in its header."""

    def __init__(self, version: str, now: float) -> None:
        super().__init__(200, body=json.dumps({"gitVersion": version}).encode())
        object.__setattr__(self, "now", now)

    def to_response(self) -> Response:
        now: float = self.now  # type: ignore[attr-defined]  # set above, past the frozen dataclass
        date = format_datetime(datetime.fromtimestamp(now, UTC), usegmt=True)
        response = super().to_response()
        return Response(response.status, {**response.headers, "date": date}, response.body)


def secret_of(certificates: Certificates) -> Document:
    files: Mapping[str, bytes] = {
        "ca-cert.pem": certificates.authority,
        "tls.crt": certificates.certificate,
        "tls.key": certificates.key,
    }
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    return {"metadata": {"name": "kruise-webhook-certs"}, "data": data}


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    """Certificates for the Service, issued on 2026-01-31."""
    return renew_certificates(None, host=HOST, now=1769860800.0)


@pytest.fixture
async def patient(certificates: Certificates) -> AsyncIterator[Patient]:
    async with small_cluster(nodes=1) as place, _installed(place, certificates) as patient:
        yield patient


@functools.cache
def _printed() -> bytes:
    return json.dumps(build_manifests(Installation())).encode()


def _manifests() -> list[Document]:
    """Output of `pykruise install`, in a copy that a test may change."""
    result: list[Document] = json.loads(_printed())
    return result


@asynccontextmanager
async def _installed(place: Place, certificates: Certificates) -> AsyncIterator[Patient]:
    patient = Patient(place)
    bundle = base64.b64encode(certificates.authority).decode()
    for doc in _manifests():
        resource = _RESOURCES.get(doc["kind"])
        if resource is None:
            continue  # roles are asked of the authorizer
        for entry in doc.get("webhooks") or ():
            entry["clientConfig"]["caBundle"] = bundle
        conversion = (
            doc.get("spec", {}).get("conversion") if resource is CUSTOM_RESOURCE_DEFINITIONS else None
        )
        if conversion and "webhook" in conversion:
            conversion["webhook"]["clientConfig"]["caBundle"] = bundle
        namespace = SYSTEM if resource.namespaced else ""
        await place.client.create(resource, namespace, doc)
    await place.create(SECRETS, secret_of(certificates), namespace=SYSTEM)
    now = format_micro_time(place.cluster.clock())
    lease = {
        "holderIdentity": "manager_1",
        "leaseDurationSeconds": 3600,
        "acquireTime": now,
        "renewTime": now,
    }
    await place.create(LEASES, {"metadata": {"name": "kruise-manager"}, "spec": lease}, namespace=SYSTEM)

    async def is_ready() -> bool:
        status = (await place.get(DEPLOYMENTS, "kruise-controller-manager", namespace=SYSTEM)).get(
            "status"
        ) or {}
        slices = (await place.client.list(ENDPOINT_SLICES, SYSTEM)).items
        ready = [
            endpoint
            for raw in slices
            for endpoint in decode(raw).get("endpoints") or ()
            if endpoint["conditions"]["ready"]
        ]
        return status.get("readyReplicas", 0) == 2 and len(ready) == 2

    await place.until(is_ready)
    yield patient


def said(findings: list[Finding], level: FindingLevel) -> list[str]:
    return [finding.format_line() for finding in findings if finding.level is level]


# ── a healthy one ────────────────────────────────────────────────────────────


async def test_a_healthy_installation_passes_all_checks(patient: Patient) -> None:
    # given an installation without the node agent
    await gates(patient, "KruiseDaemon=false")
    patient.authorizer = Authorizer(build_roles(Gates.of(KruiseDaemon=False), namespace=SYSTEM))
    # when
    findings = await patient.examine()
    # then
    assert [finding.format_line() for finding in findings if finding.level is not FindingLevel.OK] == []
    assert {finding.check for finding in findings} == {name for name, _ in CHECKS}


async def gates(patient: Patient, text: str) -> None:
    gates = decode(await patient.client.get(DEPLOYMENTS, SYSTEM, "kruise-controller-manager"))
    container = gates["spec"]["template"]["spec"]["containers"][0]
    others = [word for word in container["args"] if not word.startswith("--feature-gates=")]
    container["args"] = [*others, f"--feature-gates={text}"]
    await patient.client.update(DEPLOYMENTS, SYSTEM, "kruise-controller-manager", gates)

    async def rolled_out() -> bool:
        status = (await patient.place.get(DEPLOYMENTS, "kruise-controller-manager", namespace=SYSTEM))[
            "status"
        ]
        return status.get("updatedReplicas") == status.get("readyReplicas") == status.get("replicas") == 2

    await asyncio.sleep(1.0)
    await patient.place.until(rolled_out)


# ── broken ones ──────────────────────────────────────────────────────────────

Break = Callable[[Patient], Any]


async def no_crd(patient: Patient) -> None:
    await patient.remove(CUSTOM_RESOURCE_DEFINITIONS, "clonesets.apps.kruise.io")


async def old_version_not_served(patient: Patient) -> None:
    crd = decode(await patient.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", "clonesets.apps.kruise.io"))
    for version in crd["spec"]["versions"]:
        version["served"] = version["storage"]
    await patient.client.update(CUSTOM_RESOURCE_DEFINITIONS, "", "clonesets.apps.kruise.io", crd)


async def no_conversion(patient: Patient) -> None:
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await patient.change(CUSTOM_RESOURCE_DEFINITIONS, "clonesets.apps.kruise.io", patch)


async def conversion_elsewhere(patient: Patient) -> None:
    service = {"namespace": "elsewhere", "name": "other"}
    patch = {"spec": {"conversion": {"webhook": {"clientConfig": {"service": service}}}}}
    await patient.change(CUSTOM_RESOURCE_DEFINITIONS, "clonesets.apps.kruise.io", patch)


async def namespace_unlabelled(patient: Patient) -> None:
    await patient.change(NAMESPACES, SYSTEM, {"metadata": {"labels": {"control-plane": None}}})


async def scaled_to_zero(patient: Patient) -> None:
    await patient.change(DEPLOYMENTS, "kruise-controller-manager", {"spec": {"replicas": 0}})


async def no_pod_ready(patient: Patient) -> None:
    result = decode(await patient.client.get(DEPLOYMENTS, SYSTEM, "kruise-controller-manager"))
    result["status"] = {"replicas": 2}
    answer = Answer(200, body=json.dumps(result).encode())
    patient.faulty.on(requests("GET", path="/deployments/"), lambda _: answer)


async def no_service(patient: Patient) -> None:
    await patient.remove(SERVICES, "kruise-webhook-service")


async def service_selects_no_pod(patient: Patient) -> None:
    await patient.change(
        SERVICES, "kruise-webhook-service", {"spec": {"selector": {"control-plane": "other"}}}
    )
    await asyncio.sleep(5.0)


async def service_of_another_port(patient: Patient) -> None:
    ports = [{"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": 1234}]
    await patient.change(SERVICES, "kruise-webhook-service", {"spec": {"ports": ports}})


async def no_secret(patient: Patient) -> None:
    await patient.remove(SECRETS, "kruise-webhook-certs")


async def no_secret_of_another_program(patient: Patient) -> None:
    await gates(patient, "EnableExternalCerts=true")
    await no_secret(patient)


async def pods_rejected(patient: Patient) -> None:
    message = 'pods "x" is forbidden: unable to validate against any security context constraint'
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    result = decode(await patient.client.get(DEPLOYMENTS, SYSTEM, "kruise-controller-manager"))
    result["status"] = {"conditions": [condition]}
    answer = Answer(200, body=json.dumps(result).encode())
    patient.faulty.on(requests("GET", path="/deployments/"), lambda _: answer)


async def certificate_of_another_name(patient: Patient) -> None:
    other = renew_certificates(None, host="other.default.svc", now=patient.place.cluster.clock())
    await patient.change(SECRETS, "kruise-webhook-certs", {"data": secret_of(other)["data"]})


async def certificate_expired(patient: Patient) -> None:
    old = renew_certificates(None, host=HOST, now=patient.place.cluster.clock() - 15 * 365 * 86400)
    await patient.change(SECRETS, "kruise-webhook-certs", {"data": secret_of(old)["data"]})


async def another_authority(patient: Patient) -> None:
    other = renew_certificates(None, host=HOST, now=patient.place.cluster.clock())
    await patient.change(SECRETS, "kruise-webhook-certs", {"data": secret_of(other)["data"]})


async def no_configuration(patient: Patient) -> None:
    await patient.remove(VALIDATING, VALIDATING_NAME)


async def no_bundle(patient: Patient) -> None:
    await patient.entries(MUTATING, MUTATING_NAME, lambda entry: entry["clientConfig"].pop("caBundle"))


async def webhooks_elsewhere(patient: Patient) -> None:
    def edit(entry: Document) -> None:
        entry["clientConfig"]["service"]["name"] = "other"

    await patient.entries(VALIDATING, VALIDATING_NAME, edit)


async def guards_kube_system(patient: Patient) -> None:
    def edit(entry: Document) -> None:
        entry.pop("namespaceSelector", None)

    await patient.entries(MUTATING, MUTATING_NAME, edit)
    if not await patient.place.exists(NAMESPACES, "kube-system"):
        await patient.place.create(NAMESPACES, {"metadata": {"name": "kube-system"}})


async def webhook_not_reachable(patient: Patient) -> None:
    message = (
        'Internal error occurred: failed calling webhook "mcloneset.kb.io": failed to call webhook: Post'
        ' "https://kruise-webhook-service.kruise-system.svc:443/mutate": context deadline exceeded'
    )
    patient.admission = Answer(500, message=message)


async def webhook_certificate_refused(patient: Patient) -> None:
    message = (
        'Internal error occurred: failed calling webhook "mcloneset.kb.io": failed to call webhook: Post "https://x":'
        " tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )
    patient.admission = Answer(500, message=message)


async def no_account(patient: Patient) -> None:
    await patient.remove(SERVICE_ACCOUNTS, "kruise-manager")


async def rights_of_an_older_version(patient: Patient) -> None:
    documents = build_roles(Gates(), namespace=SYSTEM)
    for doc in documents:
        if doc["kind"] == "ClusterRole":
            doc["rules"] = [rule for rule in doc["rules"] if "pods/resize" not in rule["resources"]]
    patient.authorizer = Authorizer(documents)


async def no_manager_leads(patient: Patient) -> None:
    await patient.change(LEASES, "kruise-manager", {"spec": {"holderIdentity": None}})


async def leader_is_dead(patient: Patient) -> None:
    long_ago = format_micro_time(patient.place.cluster.clock() - 7200)
    await patient.change(LEASES, "kruise-manager", {"spec": {"renewTime": long_ago}})


async def leader_is_ahead(patient: Patient) -> None:
    later = format_micro_time(patient.place.cluster.clock() + 600)
    await patient.change(LEASES, "kruise-manager", {"spec": {"renewTime": later}})


async def never_led(patient: Patient) -> None:
    await patient.remove(LEASES, "kruise-manager")


async def unknown_gate(patient: Patient) -> None:
    await gates(patient, "Foo=true")


async def unknown_flag(patient: Patient) -> None:
    result = decode(await patient.client.get(DEPLOYMENTS, SYSTEM, "kruise-controller-manager"))
    result["spec"]["template"]["spec"]["containers"][0]["args"].append("--clonset-workers=3")
    await patient.client.update(DEPLOYMENTS, SYSTEM, "kruise-controller-manager", result)


async def resize_without_the_cluster(patient: Patient) -> None:
    await gates(patient, "InPlaceWorkloadVerticalScaling=true")
    patient.faulty.on(requests("GET", path="/api/v1"), _ApiWithoutResize)


def _ApiWithoutResize(request: Request) -> Answer | None:  # noqa: N802 - a rule of faults
    return Answer(200, body=b'{"resources":[{"name":"pods"}]}') if request.path == "/api/v1" else None


async def sidecars_are_not_asked_for(patient: Patient) -> None:
    # match conditions of a time without SidecarSets; no manager has run since then
    def narrow(entry: Document) -> None:
        if entry["name"] == "mpod.kb.io":
            entry["matchConditions"] = [{"name": CONDITION, "expression": "false"}]

    await patient.entries(MUTATING, MUTATING_NAME, narrow)


async def old_cluster(patient: Patient) -> None:
    patient.version = "v1.27.16"


@pytest.mark.parametrize(
    ("break_it", "check", "what", "fix"),
    [
        (no_crd, "crds", "clonesets.apps.kruise.io is not installed", "pykruise install"),
        (old_version_not_served, "crds", "does not serve version v1alpha1", "pykruise install"),
        (no_conversion, "conversion", "is not converted by a webhook", "pykruise install"),
        (conversion_elsewhere, "conversion", "is converted by Service elsewhere/other", "pykruise install"),
        (
            namespace_unlabelled,
            "namespace",
            "lacks the label control-plane=openkruise",
            "kubectl label namespace",
        ),
        (scaled_to_zero, "manager", "is scaled to 0", "--replicas=2"),
        (no_pod_ready, "manager", "no pod of Deployment", "logs deployment/kruise-controller-manager"),
        (pods_rejected, "manager", "security context constraint", "describe replicasets"),
        (no_service, "service", "there is no Service", "pykruise install"),
        (service_selects_no_pod, "service", "has no ready pod", 'finding of the check "manager"'),
        (
            service_of_another_port,
            "service",
            "sends requests to port 1234, but the manager serves at 9876",
            "pykruise install",
        ),
        (no_secret, "certificate", "there is no Secret", "start a manager"),
        (certificate_of_another_name, "certificate", f"does not cover {HOST}", "delete secret"),
        (certificate_expired, "certificate", "expires at", "delete secret"),
        (
            no_secret_of_another_program,
            "certificate",
            "there is no Secret",
            "the program that provides the certificates",
        ),
        (another_authority, "webhooks", "trusts another CA", "restart the manager"),
        (no_configuration, "webhooks", f"{VALIDATING_NAME} does not exist", "pykruise install"),
        (no_bundle, "webhooks", "has no CA bundle", "start a manager"),
        (webhooks_elsewhere, "webhooks", "points to Service kruise-system/other", "pykruise install"),
        (
            guards_kube_system,
            "webhooks",
            "mpod.kb.io reviews pods of namespace kube-system",
            "pykruise install",
        ),
        (sidecars_are_not_asked_for, "webhooks", "leave out pods that objects select", "start a manager"),
        (webhook_not_reachable, "admission", "context deadline exceeded", "network policies"),
        (
            webhook_certificate_refused,
            "admission",
            "signed by unknown authority",
            "does not match the CA bundle",
        ),
        (no_account, "rbac", "there is no ServiceAccount", "pykruise install"),
        (
            rights_of_an_older_version,
            "rbac",
            "has no permission to patch pods/resize (to resize cpu and memory",
            "pykruise install",
        ),
        (no_manager_leads, "lease", "no holder", "start a manager"),
        (leader_is_dead, "lease", "manager_1 has not renewed lease", "check whether that manager is alive"),
        (leader_is_ahead, "lease", "its clock is ahead", "NTP"),
        (never_led, "lease", "no manager has ever been the leader", "webhooks work"),
        (unknown_gate, "gates", "gate 'Foo' is not known", "correct the args"),
        (unknown_flag, "gates", "did you mean --cloneset-workers?", "correct the args"),
        (resize_without_the_cluster, "gates", "has no pods/resize", "switch the gate off"),
        (old_cluster, "cluster", "v1.27.16 is older than 1.28", "upgrade"),
    ],
)
async def test_a_fault_is_named_with_its_fix(
    patient: Patient, break_it: Break, check: str, what: str, fix: str
) -> None:
    # given
    await break_it(patient)
    # when
    all_found = await patient.examine()
    faults = [finding for finding in all_found if finding.level is FindingLevel.FAULT]
    # then
    named = [finding for finding in faults if finding.check == check and what in finding.what]
    assert named, "\n".join(finding.format_line() for finding in all_found)
    assert fix in named[0].fix


async def test_a_remedy_has_the_options_of_the_installation(patient: Patient) -> None:
    """Other options would change the installation: here, they would switch the gate off."""
    # given
    await gates(patient, "CloneSetShortHash=true")
    await no_service(patient)
    # when
    faults = said(await patient.examine(), FindingLevel.FAULT)
    # then
    [line] = [line for line in faults if "there is no Service" in line]
    assert line.endswith(
        " — fix: pykruise install --registry=pykruise --feature-gates=CloneSetShortHash=true --no-disruption-budget"
        " | kubectl apply --server-side -f -"
    )


# ── what is no fault ─────────────────────────────────────────────────────────


async def test_an_installation_with_other_names_has_no_fault(patient: Patient) -> None:
    """The Lease and the Service have the names of the manager's flags and environment, and another container comes
    before the manager's.
    """
    # given
    patient.authorizer = Authorizer(build_roles(Gates.of(ImagePullJobGate=True), namespace=SYSTEM))
    deployment = decode(await patient.client.get(DEPLOYMENTS, SYSTEM, "kruise-controller-manager"))
    pod_spec = deployment["spec"]["template"]["spec"]
    manager = pod_spec["containers"][0]
    manager["args"] += ["--leader-election-id=mine", "--leader-election-namespace=default"]
    manager["env"].append({"name": "SERVICE_NAME", "value": "mine"})
    proxy = {"name": "proxy", "image": "proxy:1", "args": ["--secure-listen-address=:8443"]}
    pod_spec["containers"] = [proxy, manager]
    await patient.client.update(DEPLOYMENTS, SYSTEM, "kruise-controller-manager", deployment)
    lease = await patient.place.get(LEASES, "kruise-manager", namespace=SYSTEM)
    await patient.place.create(
        LEASES, {"metadata": {"name": "mine"}, "spec": lease["spec"]}, namespace="default"
    )
    await never_led(patient)
    service = await patient.place.get(SERVICES, "kruise-webhook-service", namespace=SYSTEM)
    copied = {name: service["spec"][name] for name in ("ports", "selector")}
    await patient.place.create(SERVICES, {"metadata": {"name": "mine"}, "spec": copied}, namespace=SYSTEM)

    def edit(entry: Document) -> None:
        entry["clientConfig"]["service"]["name"] = "mine"

    for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)):
        await patient.entries(resource, name, edit)
    for raw in (await patient.client.list(CUSTOM_RESOURCE_DEFINITIONS)).items:
        crd = decode(raw)
        if "webhook" in crd["spec"].get("conversion", {}):
            patch = {"spec": {"conversion": {"webhook": {"clientConfig": {"service": {"name": "mine"}}}}}}
            await patient.change(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"], patch)
    await asyncio.sleep(30.0)
    # when
    faults = said(await patient.examine(), FindingLevel.FAULT)
    # then only the certificate, which is for the Service of the other name
    assert [line.split()[1] for line in faults] == ["certificate:"]


async def test_a_manager_without_leader_election_needs_no_lease(patient: Patient) -> None:
    # given
    deployment = decode(await patient.client.get(DEPLOYMENTS, SYSTEM, "kruise-controller-manager"))
    deployment["spec"]["template"]["spec"]["containers"][0]["args"][0] = "--enable-leader-election=false"
    await patient.client.update(DEPLOYMENTS, SYSTEM, "kruise-controller-manager", deployment)
    await never_led(patient)
    # when
    findings = [finding for finding in await patient.examine() if finding.check == "lease"]
    # then
    assert [finding.format_line() for finding in findings] == [
        "ok       lease: the manager needs no Lease (--enable-leader-election=false)"
    ]


@pytest.mark.parametrize("minor", MINORS)
async def test_a_warning_is_printed_only_where_nothing_can_limit_agents_to_their_nodes(
    patient: Patient, minor: str
) -> None:
    # given
    patient.version = f"v{minor}.4"
    # when
    warnings = [finding for finding in await patient.examine() if finding.level is FindingLevel.WARNING]
    # then
    named = [finding for finding in warnings if finding.check == "cluster"]
    assert [("ValidatingAdmissionPolicy" in finding.what, "1.30" in finding.fix) for finding in named] == (
        [(True, True)] if minor in ("1.28", "1.29") else []
    )


async def test_pods_that_were_created_past_the_webhooks_are_counted(patient: Patient) -> None:
    # given webhooks that do not answer, and two pods of a CloneSet, one as the pod webhook would have made it
    def ignore(entry: Document) -> None:
        entry["failurePolicy"] = "Ignore"

    await patient.entries(MUTATING, MUTATING_NAME, ignore)
    await patient.entries(VALIDATING, VALIDATING_NAME, ignore)
    owner = await patient.place.create(CLONE_SETS, cloneset(replicas=2))
    owners = [owned_by(owner, controller=True)]
    await patient.place.create(PODS, pod("web-1", owners=owners))
    gate = [{"conditionType": "KruisePodReady"}]
    await patient.place.create(PODS, pod("web-2", owners=owners, readinessGates=gate))
    # when
    warnings = said(await patient.examine(), FindingLevel.WARNING)
    # then
    missed = [line for line in warnings if "1 pod lacks the readiness gate KruisePodReady" in line]
    assert len(missed) == 1
    assert "default/web-1" in missed[0]


async def test_a_clock_that_is_off_is_a_warning(patient: Patient) -> None:
    patient.skew_s = 60.0
    assert any(
        "behind the API server" in line for line in said(await patient.examine(), FindingLevel.WARNING)
    )


async def test_a_missing_daemon_is_a_warning(patient: Patient) -> None:
    warnings = said(await patient.examine(), FindingLevel.WARNING)
    assert any("there is no DaemonSet kruise-daemon" in line for line in warnings)


async def test_agents_that_still_run_although_their_gate_is_off_are_a_warning(patient: Patient) -> None:
    await gates(patient, "KruiseDaemon=false")
    [daemon] = [doc for doc in build_manifests(Installation()) if doc["kind"] == "DaemonSet"]
    await patient.place.create(DAEMON_SETS, daemon, namespace=SYSTEM)
    [line] = [
        line for line in said(await patient.examine(), FindingLevel.WARNING) if "still runs agents" in line
    ]
    assert line.endswith("kubectl -n kruise-system delete daemonset kruise-daemon")


@pytest.mark.parametrize(("replicas", "is_closed"), [(1, True), (2, False)])
async def test_a_budget_that_keeps_the_only_manager_is_a_warning(
    patient: Patient, replicas: int, is_closed: bool
) -> None:
    # given the budget of an installation with two replicas, and budgets of other pods
    documents = [doc for doc in build_manifests(Installation()) if doc["kind"] == "PodDisruptionBudget"]
    other = deep_copy(documents[0])
    other["metadata"]["name"], other["spec"]["selector"] = "other", {"matchLabels": {"app": "other"}}
    for document in (*documents, other):
        await patient.place.create(POD_DISRUPTION_BUDGETS, document, namespace=SYSTEM)
    # when
    await patient.change(DEPLOYMENTS, "kruise-controller-manager", {"spec": {"replicas": replicas}})
    await asyncio.sleep(60.0)
    # then
    lines = [finding.format_line() for finding in await patient.examine() if finding.check == "drains"]
    assert ["never allows an eviction of a manager" in line for line in lines] == [is_closed]


@pytest.mark.parametrize(("remaining", "warns"), [(0.5, False), (0.05, True)])
async def test_the_certificate_of_another_program_is_late_only_at_the_end_of_its_lifetime(
    patient: Patient, remaining: float, warns: bool
) -> None:
    # given a certificate that is valid for a day
    await gates(patient, "EnableExternalCerts=true")
    now = patient.place.cluster.clock()
    pair = provide_certificates(HOST, start=now - (1 - remaining) * 86400, end=now + remaining * 86400)
    await patient.change(SECRETS, "kruise-webhook-certs", {"data": secret_of(pair)["data"]})
    # when
    findings = [finding for finding in await patient.examine() if finding.check == "certificate"]
    # then
    assert [finding.level for finding in findings] == [FindingLevel.WARNING if warns else FindingLevel.OK]
    assert not any("delete secret" in finding.fix for finding in findings)


async def test_the_gates_decide_which_webhooks_must_be_registered(patient: Patient) -> None:
    # given webhooks without one of a kind of OpenKruise's
    configuration = decode(await patient.client.get(VALIDATING, "", VALIDATING_NAME))
    entries = configuration["webhooks"]

    async def warnings(*without: str) -> list[str]:
        kept = [entry for entry in entries if entry["name"] not in without]
        await patient.change(VALIDATING, VALIDATING_NAME, {"webhooks": kept})
        return [
            line for line in said(await patient.examine(), FindingLevel.WARNING) if "not registered" in line
        ]

    # then only one that the manager's gates ask for is missed
    assert await warnings() == []
    (line,) = await warnings("vcloneset.kb.io")
    assert line.partition(" — ")[0].endswith(": vcloneset.kb.io")
    assert "pykruise.io/template-of-" in line
    assert await warnings("vservice.kb.io", "vingress.kb.io") == []


async def test_a_forbidden_read_is_reported_and_the_other_checks_run(patient: Patient) -> None:
    patient.faulty.on(
        requests("GET", path="/secrets/"), lambda _: Answer(403, message="secrets is forbidden")
    )
    findings = await patient.examine()
    assert any(
        "cannot be checked: secrets is forbidden" in line for line in said(findings, FindingLevel.UNKNOWN)
    )
    assert any(finding.check == "lease" and finding.level is FindingLevel.OK for finding in findings)


async def test_requests_that_a_manager_holds_back_are_named(patient: Patient) -> None:
    text = (
        'pykruise_api_held_back_seconds{scope="writes of /api/v1/namespaces/busy/pods"} 29.5\n'
        "pykruise_api_holds_total 3.0\n"
    )
    patient.faulty.on(requests("GET", path="/proxy/metrics"), lambda _: Answer(200, body=text.encode()))
    findings = await patient.examine()
    lines = [line for line in said(findings, FindingLevel.WARNING) if " requests: " in line]
    assert lines
    assert all(
        " delays requests: writes of /api/v1/namespaces/busy/pods for 30 s — fix: " in line for line in lines
    )


async def test_a_cluster_that_does_not_answer_ends_in_findings_and_not_in_a_traceback(
    patient: Patient,
) -> None:
    client = Client(_Dead(patient), clock=patient.place.cluster.clock, retry=RetryPolicy(reads=0, writes=0))
    findings = await examine(Live(client, clock=patient.place.cluster.clock))
    assert {finding.level for finding in findings} == {FindingLevel.UNKNOWN}


def _Dead(patient: Patient) -> FaultyTransport:  # noqa: N802 - reads as a transport
    dead = FaultyTransport(patient.place.cluster.make_transport("no-client"))
    dead.on(requests(), lambda _: Refuse())
    return dead
