"""Checks of the kinds: whether the API server serves them in the needed versions and converts between them."""

from collections.abc import Sequence

from pykruise.kinds import build_crds, list_conversions
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import ApiError, ForbiddenError, InternalError, InvalidError, KubeError
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.kube.values.counts import format_count
from pykruise.manager.doctor.findings import Finding, make_fault, make_fine, make_unknown, make_warning
from pykruise.manager.doctor.live import Live
from pykruise.manager.doctor.trial import make_trial_cloneset


async def check_crds(live: Live) -> Sequence[Finding]:
    """Check that the CRDs exist, are established, and have the needed versions."""
    wanted = build_crds()
    findings = [finding for crd in wanted for finding in await _check_crd(live, crd)]
    return findings or [make_fine("crds", f"all {format_count(len(wanted), 'CRD is', 'CRDs are')} installed")]


async def _check_crd(live: Live, wanted: Document) -> list[Finding]:
    name = wanted["metadata"]["name"]
    stored = await live.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
    if stored is None:
        return [make_fault("crds", f"{name} is not installed", live.apply)]
    conditions = {
        condition["type"]: condition for condition in get_path(stored, "status", "conditions", default=[])
    }
    established = conditions.get("Established", {})
    if established.get("status") != "True":
        why = established.get("message") or "it is not served yet"
        return [make_fault("crds", f"{name} is not established: {why}", f"kubectl describe crd {name}")]
    versions = {version["name"]: version for version in stored["spec"]["versions"]}
    known = {version["name"] for version in wanted["spec"]["versions"]}
    stored_in = next((version["name"] for version in versions.values() if version.get("storage")), "none")
    findings = []
    if stored_in not in known:
        what = (
            f"objects of {name} are stored as {stored_in}, but pykruise knows only {', '.join(sorted(known))}"
        )
        findings.append(make_fault("crds", what, live.apply))
    elif not versions[stored_in].get("served"):
        findings.append(
            make_fault(
                "crds", f"{name} stores objects in {stored_in}, but does not serve this version", live.apply
            )
        )
    elif len(versions) > 1:  # CRDs of older OpenKruise releases have only one version
        unserved = sorted(version for version in known if not versions.get(version, {}).get("served"))
        findings += [
            make_fault("crds", f"{name} does not serve version {version}", live.apply) for version in unserved
        ]
    old = [
        version
        for version in get_path(stored, "status", "storedVersions", default=[])
        if version not in versions
    ]
    if old:
        findings.append(
            make_fault(
                "crds",
                f"{name} has objects stored as {', '.join(old)}, but has no schema for {', '.join(old)}",
                live.apply,
            )
        )
    return findings


async def check_conversion(live: Live) -> Sequence[Finding]:
    """Check that kinds with two versions have a conversion webhook that responds."""
    service = (await live.read_settings_or_defaults()).webhook.service
    findings = []
    for crd in build_crds():
        kind = (crd["spec"]["group"], crd["spec"]["names"]["kind"])
        stored = await live.get(CUSTOM_RESOURCE_DEFINITIONS, "", crd["metadata"]["name"])
        if kind in list_conversions() and stored is not None and len(stored["spec"]["versions"]) > 1:
            findings += _check_stanza(crd["metadata"]["name"], stored, live, service)
    return [*findings, *(await _try_conversion(live) if not findings else ())]


def _check_stanza(name: str, crd: Document, live: Live, wanted: str) -> list[Finding]:
    """Check the conversion of one CRD. `wanted`: name of the manager's Service."""
    conversion = crd["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        what = (
            f"{name} is not converted by a webhook: fields whose names differ between its versions are lost"
        )
        return [make_fault("conversion", what, live.apply)]
    config = get_path(conversion, "webhook", "clientConfig", default={})
    if not config.get("caBundle"):
        what = f"{name} has no CA bundle for its conversion webhook: reading the other version fails"
        return [
            make_fault(
                "conversion", what, "start a manager: it fills in the CA bundle, or its log has the error"
            )
        ]
    service = config.get("service")
    if service and (service.get("namespace"), service.get("name")) != (live.namespace, wanted):
        where = f"{service.get('namespace')}/{service.get('name')}"
        return [
            make_fault(
                "conversion",
                f"{name} is converted by Service {where}, not {live.namespace}/{wanted}",
                live.apply,
            )
        ]
    return []


async def _try_conversion(live: Live) -> list[Finding]:
    """Send a dry run in the version that is not stored, so that the API server calls the conversion webhook."""
    resource = _find_converted_cloneset()
    if resource is None:
        return []
    try:
        await live.client.create(resource, live.namespace, make_trial_cloneset(resource), dry_run=True)
    except ForbiddenError as error:
        return [make_unknown("conversion", f"the dry run failed: {error}")]
    except InternalError as error:
        if "conversion webhook" in str(error):
            what = f"the conversion webhook does not respond: {error}"
            return [
                make_fault(
                    "conversion",
                    what,
                    'see the findings of the checks "service", "certificate" and "manager"',
                )
            ]
        return [make_unknown("conversion", f"the dry run failed, because admission rejects it: {error}")]
    except InvalidError as error:
        return [
            make_warning(
                "conversion", f"a plain CloneSet of {resource.version} is rejected: {error}", live.apply
            )
        ]
    except (ApiError, KubeError) as error:
        return [make_unknown("conversion", f"the dry run failed: {error}")]
    return [make_fine("conversion", f"{resource.version} is converted")]


def _find_converted_cloneset() -> Resource | None:
    for crd in build_crds():
        spec = crd["spec"]
        if spec["names"]["kind"] == "CloneSet" and (spec["group"], "CloneSet") in list_conversions():
            other = next((version["name"] for version in spec["versions"] if not version["storage"]), "")
            return Resource(spec["group"], other, "clonesets", "CloneSet") if other else None
    return None
