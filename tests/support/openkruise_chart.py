"""A small chart in place of OpenKruise's: it has the same object names, value names and defaults, as far as an upgrade
of its release to pykruise's chart depends on them.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from pykruise.kinds import RELEASED_STORED, build_crds
from pykruise.manager.daemon import DAEMON, DAEMON_LABELS, MOUNTED
from pykruise.manager.install import MANAGER, NAMESPACE_LABELS, POD_LABELS, SERVICE
from pykruise.manager.roles import ACCOUNT

__all__ = ["write_openkruise_chart"]

VERSION: Final = "1.8.3"
VALUES: Final[dict[str, Any]] = {
    "crds": {"managed": True},
    "installation": {"namespace": "kruise-system", "createNamespace": True, "roleListGroups": ["*"]},
    "featureGates": "ImagePullJobGate=true",
    "externalCerts": {"annotations": {}},
    "enableKubeCacheMutationDetector": False,
    "imagePullSecrets": [],
    "manager": {
        "log": {"level": "4"},
        "replicas": 2,
        "image": {"repository": "openkruise/kruise-manager", "tag": f"v{VERSION}"},
        "webhook": {"port": 9876},
        "metrics": {"port": 8080},
        "healthProbe": {"port": 8000},
        "pprofAddr": "localhost:8090",
        "resyncPeriod": "0",
        "loggingFormat": "",
        "resources": {
            "limits": {"cpu": "200m", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "hostNetwork": False,
        "nodeAffinity": {},
        "nodeSelector": {},
        "tolerations": [],
    },
    "webhookConfiguration": {"timeoutSeconds": 30},
    "daemon": {
        "log": {"level": "4"},
        "port": 10221,
        "enablePprof": True,
        "pprofAddr": "localhost:10222",
        "socketLocation": "/var/run",
        "socketFile": "",
        "nodeSelector": {},
        "affinity": {},
        "resources": {
            "limits": {"cpu": "50m", "memory": "128Mi"},
            "requests": {"cpu": "0", "memory": "0"},
        },
        "extraEnvs": [],
        "credentialProvider": {
            "enable": False,
            "configmap": "credential-provider-config",
            "hostPath": "credential-provider-plugin",
            "awsCredentialsDir": "",
        },
    },
    "serviceAccount": {"annotations": {}},
    "helmHooks": {"image": {"repository": "openkruise/kruise-helm-hook", "tag": "v0.1.0"}},
}
"""Defaults of OpenKruise's chart."""

_IMAGE: Final = "{{ .Values.manager.image.repository }}:{{ .Values.manager.image.tag }}"


def write_openkruise_chart(folder: Path) -> Path:
    """Write the chart into a new folder, and return the folder."""
    templates = folder / "templates"
    templates.mkdir(parents=True)
    about = {"apiVersion": "v2", "name": "kruise", "version": VERSION, "appVersion": VERSION}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about))
    (folder / "values.yaml").write_text(yaml.safe_dump(VALUES))
    # The chart of 1.8 does not contain this CRD.
    crds = [
        crd for crd in build_crds(layout=RELEASED_STORED) if crd["spec"]["names"]["kind"] != "EphemeralJob"
    ]
    (templates / "crds.yaml").write_text(yaml.safe_dump_all(crds))
    # A number, which must not be in quotes.
    number = "{{ .Values.manager.replicas }}"
    text = yaml.safe_dump_all(_build_objects(), width=1000).replace(f"'{number}'", number)
    (templates / "manager.yaml").write_text(text)
    return folder


def _build_objects() -> list[Any]:
    namespace = "{{ .Values.installation.namespace }}"

    def build(kind: str, name: str, version: str = "v1", **content: Any) -> Any:
        place = {} if kind == "Namespace" else {"namespace": namespace}
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, **content}

    manager = {
        "name": "manager",
        "image": _IMAGE,
        "command": ["/manager"],
        "args": [
            "--enable-leader-election",
            "--logtostderr=true",
            f"--leader-election-namespace={namespace}",
            "--v={{ .Values.manager.log.level }}",
            "--feature-gates={{ .Values.featureGates }}",
        ],
        "ports": [{"name": "webhook-server", "containerPort": 9876, "protocol": "TCP"}],
        "resources": VALUES["manager"]["resources"],
    }
    daemon = {
        "name": "daemon",
        "image": _IMAGE,
        "command": ["/kruise-daemon"],
        "args": ["--logtostderr=true", "--socket-file={{ .Values.daemon.socketFile }}"],
        "resources": VALUES["daemon"]["resources"],
        "volumeMounts": [{"name": "runtime-socket", "mountPath": MOUNTED, "readOnly": True}],
    }
    volume = {
        "name": "runtime-socket",
        "hostPath": {"path": "{{ .Values.daemon.socketLocation }}", "type": ""},
    }
    return [
        {**build("Namespace", namespace), "metadata": {"name": namespace, "labels": dict(NAMESPACE_LABELS)}},
        build("Namespace", "kruise-daemon-config"),
        build("ServiceAccount", ACCOUNT),
        build("ServiceAccount", DAEMON),
        build("Secret", "kruise-webhook-certs"),
        build(
            "Service",
            SERVICE,
            spec={"ports": [{"port": 443, "targetPort": 9876}], "selector": dict(POD_LABELS)},
        ),
        build(
            "Deployment",
            MANAGER,
            "apps/v1",
            spec={
                "replicas": "{{ .Values.manager.replicas }}",
                "selector": {"matchLabels": dict(POD_LABELS)},
                "template": {
                    "metadata": {"labels": dict(POD_LABELS)},
                    "spec": {"serviceAccountName": ACCOUNT, "hostNetwork": False, "containers": [manager]},
                },
            },
        ),
        build(
            "DaemonSet",
            DAEMON,
            "apps/v1",
            spec={
                "selector": {"matchLabels": dict(DAEMON_LABELS)},
                "template": {
                    "metadata": {"labels": dict(DAEMON_LABELS)},
                    "spec": {
                        "serviceAccountName": DAEMON,
                        "hostNetwork": True,
                        "containers": [daemon],
                        "volumes": [volume],
                    },
                },
            },
        ),
    ]
