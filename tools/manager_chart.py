"""The parts of the Helm chart that are made of what the code declares: CRDs, roles, webhooks.

manifests ──▶ chart_files() ──▶ charts/pykruise/templates/*.yaml      python -m tools.manager_chart charts/pykruise

Pure but for `main`. What a person chooses (the Deployment and its values) is written by hand beside them. A test
compares the files with what is generated, and the rendered chart with what `pykruise install` prints.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pykruise.admission.configurations import RELEASE, Endpoint, configurations
from pykruise.admission.reviewers import reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import HUB_STORED, RELEASED_STORED, crds
from pykruise.kinds.gates import Gates, all_gates
from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import webhook_conversion
from pykruise.manager.argocd import config_map, document_text
from pykruise.manager.daemon import POLICIES_SINCE, daemon_roles, own_node_policy
from pykruise.manager.install import SERVICE
from pykruise.manager.monitoring import board_config_map, pod_monitor, prometheus_rule
from pykruise.manager.roles import aggregated_roles, roles
from pykruise.manager.yaml_texts import yaml_stream, yaml_text

__all__ = ["chart_files"]

HEADER = "{{- /* Generated: python -m tools.manager_chart charts/pykruise. Do not edit. */}}\n"
NAMESPACE = "{{ .Values.installation.namespace }}"
_PLACE = "namespace-of-the-chart"
_ARGOCD, _ARGOCD_MAP = "namespace-of-argocd", "config-map-of-argocd"
_OPENED, _CLOSED = "\0opened\0", "\0closed\0"
_EXTERNAL = (
    '(or (contains "EnableExternalCerts=true" .Values.featureGates)'
    ' (contains "AllAlpha=true" .Values.featureGates))'
)
_NO_POD_WEBHOOK = '(contains "PodWebhook=false" .Values.featureGates)'
_POD_WEBHOOKS = frozenset(("mpod.kb.io", "vpod.kb.io", "vpodeviction.kb.io"))
_TIMEOUT = re.compile(r"^( *)timeoutSeconds: \d+$", re.MULTILINE)


def chart_files() -> Mapping[str, str]:
    """Text by the file's name in `templates/`."""
    return {
        "argocd.yaml": _argocd(),
        "crds.yaml": _crds(),
        "monitoring.yaml": _monitoring(),
        "rbac.yaml": _rbac(),
        "webhooks.yaml": _webhooks(),
    }


def _argocd() -> str:
    """The ConfigMap of Argo CD; it outlives the release, as the rest of it is not ours."""
    document = config_map(namespace=_ARGOCD, name=_ARGOCD_MAP)
    document["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    text = _escaped(f"---\n{document_text(document)}")
    text = text.replace(_ARGOCD_MAP, "{{ .Values.argocd.configMap }}")
    text = text.replace(_ARGOCD, "{{ .Values.argocd.namespace }}")
    return _guarded(".Values.argocd.enabled", text)


def _escaped(text: str) -> str:
    """Braces that are not Helm's: of Lua, of Prometheus' templates."""
    return (
        text.replace("{{", _OPENED)
        .replace("}}", _CLOSED)
        .replace(_OPENED, '{{ "{{" }}')
        .replace(_CLOSED, '{{ "}}" }}')
    )


_RUNBOOK: Final = re.compile(r"^(?P<indent> *)runbook: docs/monitoring\.md#(?P<anchor>\w+)$", re.MULTILINE)


def _runbook_line(found: re.Match[str]) -> str:
    """An URL where the values say where the page is."""
    value, indent, anchor = (
        "{{ $.Values.monitoring.prometheusRule.runbooks }}",
        found["indent"],
        found["anchor"],
    )
    return (
        f"{indent}{{{{- if $.Values.monitoring.prometheusRule.runbooks }}}}\n"
        f"{indent}runbook_url: {value}#{anchor}\n"
        f"{indent}{{{{- else }}}}\n{found[0]}\n{indent}{{{{- end }}}}"
    )


def _monitoring() -> str:
    """Each of it where the values ask for it: not every cluster has the Prometheus operator."""
    parts = {
        "podMonitor": pod_monitor(namespace=_PLACE, has_state=False),
        "prometheusRule": prometheus_rule(namespace=_PLACE),
        "grafanaDashboard": board_config_map(namespace=_PLACE),
    }
    text = HEADER
    for value, document in parts.items():
        body = _placed(_escaped(f"---\n{document_text(document)}"))
        body = _RUNBOOK.sub(_runbook_line, body)
        text += f"{{{{- if .Values.monitoring.{value}.enabled }}}}\n{body}"
        if value == "podMonitor":
            state = pod_monitor(namespace=_PLACE, has_state=True)["spec"]["podMetricsEndpoints"][1:]
            lines = "".join(f"  {line}\n" for line in document_text(state).splitlines())
            text += f"{{{{- if .Values.manager.metrics.state }}}}\n{lines}{{{{- end }}}}\n"
        text += "{{- end }}\n"
    return text


def _crds() -> str:
    """Definitions that store objects in the version that the values name."""
    conversion = webhook_conversion(service=(_PLACE, SERVICE))
    hub, released = (
        _yaml(crds(conversion, layout=layout)).splitlines(keepends=True)
        for layout in (HUB_STORED, RELEASED_STORED)
    )
    lines = (_stored(*both) for both in zip(hub, released, strict=True))
    return _guarded(".Values.crds.managed", "".join(lines))


def _stored(hub: str, released: str) -> str:
    """A line that differs between the two: `storage: true` of a version."""
    if hub == released:
        return hub
    is_released = "ne" if "true" in hub else "eq"
    test = f'{{{{ {is_released} .Values.crds.storedVersion "{RELEASED_STORED}" }}}}'
    return f"{hub.partition(':')[0]}: {test}\n"


def _rbac() -> str:
    """Roles for certificates that the manager makes, or for those that come from elsewhere."""
    own, external = _roles(), _roles(EnableExternalCerts=True)
    both = _yaml(aggregated_roles())
    return f"{HEADER}{{{{- if {_EXTERNAL} }}}}\n{external}{{{{- else }}}}\n{own}{{{{- end }}}}\n{both}{_daemon()}"


# By its version and not by its APIs: of those `helm template` knows the groups alone, and would leave the policy out.
_HAS_POLICIES = f'(semverCompare ">={POLICIES_SINCE}-0" .Capabilities.KubeVersion.Version)'


def _daemon() -> str:
    """Roles of the agents. What they need less with a gate off is left to them."""
    roles_of_agents = _yaml(daemon_roles(Gates(), namespace=_PLACE))
    policy = _yaml(own_node_policy(namespace=_PLACE))
    text = f"{roles_of_agents}{{{{- if and .Values.daemon.ownNodePolicy {_HAS_POLICIES} }}}}\n{policy}{{{{- end }}}}\n"
    return f'{{{{- if not (contains "KruiseDaemon=false" .Values.featureGates) }}}}\n{text}{{{{- end }}}}\n'


def _roles(**gates: bool) -> str:
    """Roles under these gates, and with each other gate the rules that come with it."""
    # A gate on which others depend, and which needs no right by itself.
    gates = {**gates, "ResourcesDeletionProtection": True}
    usual = roles(Gates.of(**gates), namespace=_PLACE)
    further = {
        name: {_key(doc): doc for doc in roles(Gates.of(**gates, **{name: True}), namespace=_PLACE)}
        for name, gate in all_gates().items()
        if not gate.default and name not in (*gates, "EnableExternalCerts")
    }
    text = ""
    for doc in usual:
        text += _yaml([doc])
        for name, documents in further.items():
            with_gate = documents[_key(doc)].get("rules", ())
            if added := [rule for rule in with_gate if rule not in doc["rules"]]:
                text += f"{{{{- if {_asked_for(name)} }}}}\n{_rules(added)}{{{{- end }}}}\n"
    return text


def _asked_for(gate: str) -> str:
    """Whether the chart's values switch a gate on, as text: so OpenKruise's chart looks at them too."""
    texts = (f"{gate}=true", f"All{all_gates()[gate].stage.title()}=true")
    return "or " + " ".join(f'(contains "{text}" .Values.featureGates)' for text in texts)


def _rules(rules: Sequence[Document]) -> str:
    return _placed(yaml_text(rules))


def _key(doc: Document) -> tuple[str, str]:
    return doc["kind"], doc["metadata"]["name"]


_NAMESPACES: Final = "namespaceSelector"


def _webhooks() -> str:
    endpoint = Endpoint(namespace=_PLACE, service=SERVICE)
    settings = AdmissionSettings(namespace=_PLACE, deletion_protection=True)
    documents = configurations(reviewers(settings), endpoint)
    # Which table of webhooks it is does not depend on the namespace that is chosen.
    usual = configurations(reviewers(AdmissionSettings(deletion_protection=True)), Endpoint())
    for doc, other in zip(documents, usual, strict=True):
        doc["metadata"]["annotations"] = other["metadata"]["annotations"]
    return HEADER + "".join(_configuration(doc) for doc in documents)


def _configuration(doc: Document) -> str:
    """A webhook configuration whose entries about pods can be left out."""
    head = _yaml([{key: value for key, value in doc.items() if key != "webhooks"}])
    head = head.replace(
        "  annotations:\n",
        "  annotations:\n    {{- with .Values.externalCerts.annotations }}\n"
        "    {{- toYaml . | nindent 4 }}\n    {{- end }}\n",
    )
    release = doc["metadata"]["annotations"][
        RELEASE
    ]  # another table of webhooks is another template for the manager
    head = head.replace(
        release, f"{release}{{{{ if .Values.webhookConfiguration.aksIntegration }}}}-aks{{{{ end }}}}"
    )
    entries = "".join(_entry(entry) for entry in doc["webhooks"])
    return f"{head}webhooks:\n{entries}"


_AKS_EXCLUDES: Final = [
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
]
"""What AKS's admissions enforcer adds to each webhook. OpenKruise's chart has the same."""


def _entry(entry: Document) -> str:
    bare = {key: value for key, value in entry.items() if key != _NAMESPACES}
    text = _placed(yaml_text([bare])) + _selector(entry.get(_NAMESPACES))
    text = _TIMEOUT.sub(r"\1timeoutSeconds: {{ .Values.webhookConfiguration.timeoutSeconds }}", text)
    if entry["name"] in _POD_WEBHOOKS:
        return f"{{{{- if not {_NO_POD_WEBHOOK} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _selector(installed: Document | None) -> str:
    """The selector of namespaces, and the same with what AKS excludes."""
    usual = _placed(yaml_text({_NAMESPACES: installed})) if installed else ""
    expressions = [*((installed or {}).get("matchExpressions") or ()), *_AKS_EXCLUDES]
    on_aks = _placed(yaml_text({_NAMESPACES: {**(installed or {}), "matchExpressions": expressions}}))
    lines = ["{{- if .Values.webhookConfiguration.aksIntegration }}", *_indented(on_aks)]
    lines += ["{{- else }}", *_indented(usual)] if usual else []
    return "\n".join([*lines, "{{- end }}", ""])


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _guarded(condition: str, text: str) -> str:
    return f"{HEADER}{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _yaml(documents: Iterable[Document]) -> str:
    text = yaml_stream(documents)
    if "{{" in text:
        raise ValueError("a manifest has {{ in it, which Helm would take for an action")
    return _placed(text)


def _placed(text: str) -> str:
    return text.replace(_PLACE, NAMESPACE)


def main(argv: Sequence[str]) -> int:
    """Write the generated files into the chart's folder."""
    folder = Path(argv[0]) / "templates"
    for name, text in chart_files().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
