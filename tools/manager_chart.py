"""The parts of the Helm chart that are generated from declarations in the code: CRDs, roles, webhooks.

manifests ──▶ render_chart_files() ──▶ charts/pykruise/templates/*.yaml   python -m tools.manager_chart charts/pykruise

Pure, except for `main`. The parts that users choose (the Deployment and its values) are handwritten templates beside
the generated ones. A test compares the files with the generated text, and the rendered chart with the output of
`pykruise install`.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pykruise.admission.configurations import RELEASE, Endpoint, build_configurations
from pykruise.admission.reviewers import list_installed_rules
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import HUB_STORED, RELEASED_STORED, build_crds
from pykruise.kinds.gates import Gates, list_all_gates
from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.kube.yaml_documents import format_yaml, format_yaml_stream
from pykruise.manager.argocd import build_config_map, format_document
from pykruise.manager.daemon import POLICIES_SINCE, build_daemon_roles, own_node_policy
from pykruise.manager.install import SERVICE
from pykruise.manager.monitoring import build_board_config_map, build_pod_monitor, build_prometheus_rule
from pykruise.manager.roles import build_aggregated_roles, build_roles

__all__ = ["render_chart_files"]

HEADER = "{{- /* Generated: python -m tools.manager_chart charts/pykruise. Do not edit. */}}\n"
_NAMESPACE_VALUE = ".Values.installation.namespace"
NAMESPACE = f"{{{{ {_NAMESPACE_VALUE} }}}}"
_PLACE = "namespace-of-the-chart"
_ANNOTATIONS = "annotations-of-external-certificates"
_RELEASE_PLACE = "hash-of-the-entries"
_ARGOCD, _ARGOCD_MAP = "namespace-of-argocd", "config-map-of-argocd"
_OPENED, _CLOSED = "\0opened\0", "\0closed\0"
_EXTERNAL = (
    '(or (contains "EnableExternalCerts=true" .Values.featureGates)'
    ' (and (contains "AllAlpha=true" .Values.featureGates)'
    ' (not (contains "EnableExternalCerts=false" .Values.featureGates))))'
)
_NO_POD_WEBHOOK = '(contains "PodWebhook=false" .Values.featureGates)'
_PROTECTION = "ResourcesDeletionProtection"
"""The only gate without which another gate is off. It needs no permission itself."""
_POD_WEBHOOKS = frozenset(("mpod.kb.io", "vpod.kb.io", "vpodeviction.kb.io"))
_TIMEOUT = re.compile(r"^( *)timeoutSeconds: \d+$", re.MULTILINE)


def render_chart_files() -> Mapping[str, str]:
    """Return the text of each generated file, by its name in `templates/`."""
    return {
        "argocd.yaml": _build_argocd(),
        "crds.yaml": _build_crds(),
        "monitoring.yaml": _build_monitoring(),
        "rbac.yaml": _build_rbac(),
        "webhooks.yaml": _build_webhooks(),
    }


def _build_argocd() -> str:
    """Return Argo CD's ConfigMap. It outlives the release, because its other content is not ours."""
    document = build_config_map(namespace=_ARGOCD, name=_ARGOCD_MAP)
    document["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    text = _escape_braces(f"---\n{format_document(document)}")
    text = text.replace(_ARGOCD_MAP, "{{ .Values.argocd.configMap }}")
    text = text.replace(_ARGOCD, "{{ .Values.argocd.namespace }}")
    return _guard(".Values.argocd.enabled", text)


def _escape_braces(text: str) -> str:
    """Escape braces that are not Helm's but belong to Lua or to Prometheus' templates."""
    return (
        text.replace("{{", _OPENED)
        .replace("}}", _CLOSED)
        .replace(_OPENED, '{{ "{{" }}')
        .replace(_CLOSED, '{{ "}}" }}')
    )


_RUNBOOK: Final = re.compile(r"^(?P<indent> *)runbook: docs/monitoring\.md#(?P<anchor>\w+)$", re.MULTILINE)


def _runbook_line(match: re.Match[str]) -> str:
    """Return the line with the URL of the runbook page, if the values name it."""
    value, indent, anchor = (
        "{{ $.Values.monitoring.prometheusRule.runbooks }}",
        match["indent"],
        match["anchor"],
    )
    return (
        f"{indent}{{{{- if $.Values.monitoring.prometheusRule.runbooks }}}}\n"
        f"{indent}runbook_url: {value}#{anchor}\n"
        f"{indent}{{{{- else }}}}\n{match[0]}\n{indent}{{{{- end }}}}"
    )


def _build_monitoring() -> str:
    """Return the monitoring objects, each only if the values request it: not every cluster has the Prometheus
    operator.
    """
    parts = {
        "podMonitor": build_pod_monitor(namespace=_PLACE, has_state=False),
        "prometheusRule": build_prometheus_rule(namespace=_PLACE),
        "grafanaDashboard": build_board_config_map(namespace=_PLACE),
    }
    text = HEADER
    for value, document in parts.items():
        body = _replace_places(_escape_braces(f"---\n{format_document(document)}"))
        body = _RUNBOOK.sub(_runbook_line, body)
        text += f"{{{{- if .Values.monitoring.{value}.enabled }}}}\n{body}"
        if value == "podMonitor":
            state = build_pod_monitor(namespace=_PLACE, has_state=True)["spec"]["podMetricsEndpoints"][1:]
            lines = "".join(f"  {line}\n" for line in format_document(state).splitlines())
            text += f"{{{{- if .Values.manager.metrics.state }}}}\n{lines}{{{{- end }}}}\n"
        text += "{{- end }}\n"
    return text


def _build_crds() -> str:
    """Return the definitions. The values choose the version in which they store objects."""
    conversion = build_webhook_conversion(service=(_PLACE, SERVICE))
    hub, released = (
        _to_yaml(map(_mark_converted, build_crds(conversion, layout=layout))).splitlines(keepends=True)
        for layout in (HUB_STORED, RELEASED_STORED)
    )
    lines = (_storage_line(*both) for both in zip(hub, released, strict=True))
    text = "".join(lines).replace(
        f"  annotations: {_ANNOTATIONS}\n",
        "  {{- with .Values.externalCerts.annotations }}\n  annotations:\n"
        "    {{- toYaml . | nindent 4 }}\n  {{- end }}\n",
    )
    return _guard(".Values.crds.managed", text)


def _mark_converted(crd: Document) -> Document:
    """Return the definition with a place for annotations if a webhook converts its objects, because the program that
    injects certificates must also set the CA bundle of this webhook.
    """
    if crd["spec"].get("conversion", {}).get("strategy") != "Webhook":
        return crd
    return {**crd, "metadata": {**crd["metadata"], "annotations": _ANNOTATIONS}}


def _storage_line(hub: str, released: str) -> str:
    """Return the line `storage: true` or `storage: false` of a version, which depends on the values."""
    if hub == released:
        return hub
    is_released = "ne" if "true" in hub else "eq"
    test = f'{{{{ {is_released} .Values.crds.storedVersion "{RELEASED_STORED}" }}}}'
    return f"{hub.partition(':')[0]}: {test}\n"


def _build_rbac() -> str:
    """Return the roles. They depend on whether the manager creates its own certificates."""
    own, external = _build_roles(), _build_roles(EnableExternalCerts=True)
    both = _to_yaml(build_aggregated_roles())
    return f"{HEADER}{{{{- if {_EXTERNAL} }}}}\n{external}{{{{- else }}}}\n{own}{{{{- end }}}}\n{both}{_build_daemon()}"


# The Kubernetes version decides, not the available APIs: `helm template` knows only the API groups, and would leave
# the policy out.
_HAS_POLICIES = f'(semverCompare ">={POLICIES_SINCE}-0" .Capabilities.KubeVersion.Version)'


def _build_daemon() -> str:
    """Return the roles of the agents. They keep permissions that are needed only with a gate that is off."""
    roles_of_agents = _to_yaml(build_daemon_roles(Gates(), namespace=_PLACE))
    policy = _to_yaml(own_node_policy(namespace=_PLACE))
    text = f"{roles_of_agents}{{{{- if and .Values.daemon.ownNodePolicy {_HAS_POLICIES} }}}}\n{policy}{{{{- end }}}}\n"
    return f'{{{{- if not (contains "KruiseDaemon=false" .Values.featureGates) }}}}\n{text}{{{{- end }}}}\n'


def _build_roles(**gates: bool) -> str:
    """Return the roles under these gates, and for each other gate the rules that it adds."""
    gates = {**gates, _PROTECTION: True}
    usual = build_roles(Gates.of(**gates), namespace=_PLACE)
    further = {
        name: {_key_of(doc): doc for doc in build_roles(Gates.of(**gates, **{name: True}), namespace=_PLACE)}
        for name, gate in list_all_gates().items()
        if not gate.default and name not in (*gates, "EnableExternalCerts")
    }
    text = ""
    for doc in usual:
        text += _to_yaml([doc])
        for name, documents in further.items():
            with_gate = documents[_key_of(doc)].get("rules", ())
            if added := [rule for rule in with_gate if rule not in doc["rules"]]:
                condition = _condition_of_gate(name)
                if not Gates.of(**{name: True})[name]:
                    condition = f"and ({condition}) ({_condition_of_gate(_PROTECTION)})"
                text += f"{{{{- if {condition} }}}}\n{_format_rules(added)}{{{{- end }}}}\n"
    return text


def _condition_of_gate(gate: str) -> str:
    """Return a condition: whether the chart's values switch a gate on. It reads the gates as text, as OpenKruise's
    chart does.
    """
    texts = (f"{gate}=true", f"All{list_all_gates()[gate].stage.title()}=true")
    return "or " + " ".join(f'(contains "{text}" .Values.featureGates)' for text in texts)


def _format_rules(rules: Sequence[Document]) -> str:
    return _replace_places(format_yaml(rules))


def _key_of(doc: Document) -> tuple[str, str]:
    return doc["kind"], doc["metadata"]["name"]


_NAMESPACES: Final = "namespaceSelector"


def _build_webhooks() -> str:
    endpoint = Endpoint(namespace=_PLACE, service=SERVICE)
    documents = build_configurations(list_installed_rules(AdmissionSettings(namespace=_PLACE)), endpoint)
    usual, without_pods = (
        build_configurations(list_installed_rules(AdmissionSettings(pod_webhook=pod_webhook)), Endpoint())
        for pod_webhook in (True, False)
    )
    [seconds] = {entry["timeoutSeconds"] for doc in usual for entry in doc["webhooks"]}
    return HEADER + "".join(
        _format_configuration(doc, release=_format_release(*map(_read_release, same), seconds=seconds))
        for doc, *same in zip(documents, usual, without_pods, strict=True)
    )


def _read_release(configuration: Document) -> str:
    return str(configuration["metadata"]["annotations"][RELEASE])


def _format_release(usual: str, without_pods: str, *, seconds: int) -> str:
    """Return the value of the annotation RELEASE: one value for each list of entries that the chart can render.
    `seconds`: the timeout of the entries that `pykruise install` prints.

    If two lists had the same value, the manager would keep the template of the first list, and would undo an upgrade
    to the second. With the default namespace and the defaults of `webhookConfiguration`, the value is that of
    `pykruise install`.
    """
    values = ".Values.webhookConfiguration"
    given = f"(int {values}.timeoutSeconds)"
    return (
        f"{{{{ if {_NO_POD_WEBHOOK} }}}}{without_pods}{{{{ else }}}}{usual}{{{{ end }}}}"
        f"{{{{ if {values}.aksIntegration }}}}-aks{{{{ end }}}}"
        f"{{{{ if ne {given} {seconds} }}}}-{{{{ {given} }}}}s{{{{ end }}}}"
        # Entries for pods exclude the namespace of the manager. No other part of the value contains an @.
        f"{{{{ if ne {_NAMESPACE_VALUE} `{AdmissionSettings().namespace}` }}}}@{NAMESPACE}{{{{ end }}}}"
    )


def _format_configuration(doc: Document, *, release: str) -> str:
    """Return a webhook configuration whose entries for pods can be left out.

    `release`: value of the annotation RELEASE. It is quoted, because YAML may read a hash such as `12e4` as a number.
    """
    meta = {**doc["metadata"], "annotations": {RELEASE: _RELEASE_PLACE}}
    head = _to_yaml([{**{key: value for key, value in doc.items() if key != "webhooks"}, "metadata": meta}])
    head = head.replace(
        "  annotations:\n",
        "  annotations:\n    {{- with .Values.externalCerts.annotations }}\n"
        "    {{- toYaml . | nindent 4 }}\n    {{- end }}\n",
    )
    head = head.replace(_RELEASE_PLACE, f'"{release}"')
    entries = "".join(_format_entry(entry) for entry in doc["webhooks"])
    return f"{head}webhooks:\n{entries}"


_AKS_EXCLUDES: Final = [
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
]
"""Expressions that AKS's admissions enforcer adds to each webhook. OpenKruise's chart has them too."""


def _format_entry(entry: Document) -> str:
    bare = {key: value for key, value in entry.items() if key != _NAMESPACES}
    text = _replace_places(format_yaml([bare])) + _selector(entry.get(_NAMESPACES))
    text = _TIMEOUT.sub(r"\1timeoutSeconds: {{ .Values.webhookConfiguration.timeoutSeconds }}", text)
    if entry["name"] in _POD_WEBHOOKS:
        return f"{{{{- if not {_NO_POD_WEBHOOK} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _selector(installed: Document | None) -> str:
    """The selector of namespaces in two forms: as it is, and with the expressions for AKS."""
    usual = _replace_places(format_yaml({_NAMESPACES: installed})) if installed else ""
    expressions = [*((installed or {}).get("matchExpressions") or ()), *_AKS_EXCLUDES]
    on_aks = _replace_places(
        format_yaml({_NAMESPACES: {**(installed or {}), "matchExpressions": expressions}})
    )
    lines = ["{{- if .Values.webhookConfiguration.aksIntegration }}", *_indented(on_aks)]
    lines += ["{{- else }}", *_indented(usual)] if usual else []
    return "\n".join([*lines, "{{- end }}", ""])


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _guard(condition: str, text: str) -> str:
    return f"{HEADER}{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _to_yaml(documents: Iterable[Document]) -> str:
    text = format_yaml_stream(documents)
    if "{{" in text:
        raise ValueError("a manifest has {{ in it, which Helm would take for an action")
    return _replace_places(text)


def _replace_places(text: str) -> str:
    return text.replace(_PLACE, NAMESPACE)


def main(argv: Sequence[str]) -> int:
    """Write the generated files into the chart's folder."""
    folder = Path(argv[0]) / "templates"
    for name, text in render_chart_files().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
