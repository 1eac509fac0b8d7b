"""Pod security standards: the sandbox refuses the same pods as a real API server, in the same words."""

import os
import re
from typing import Any

import pytest

from pykruise.kube.errors import ForbiddenError, InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS
from support.scenario import Object, Stage, cloneset

newest = pytest.mark.skipif(os.environ.get("KUBERNETES", "1.37") != "1.37", reason="texts of 1.37")
RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "nginx:1", **fields}


async def enforce(stage: Stage, level: str, version: str = "latest") -> None:
    label = "pod-security.kubernetes.io/enforce"
    labels = {label: level, f"{label}-version": version}
    await stage.client.patch(
        NAMESPACES, "", stage.namespace, {"metadata": {"labels": labels}}, patch_type=PatchType.MERGE
    )


async def refusal_of(stage: Stage, spec: Object, annotations: Object | None = None) -> str:
    """The refusal of a pod; empty: it is accepted."""
    metadata: Object = {"name": "a", "annotations": annotations or {}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    try:
        await stage.client.create(PODS, stage.namespace, pod, dry_run=True)
    except ForbiddenError as error:
        return str(error).partition("violates PodSecurity ")[2]
    return ""


SPECS: dict[str, Object] = {
    "nothing set": {"containers": [container()], "initContainers": [container("init")]},
    "all set": {"containers": [container(securityContext=RESTRICTED)]},
    "set for the pod": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            container(
                securityContext={k: RESTRICTED[k] for k in ("allowPrivilegeEscalation", "capabilities")}
            )
        ],
    },
    "privileged": {
        "containers": [
            container(securityContext={**RESTRICTED, "privileged": True, "allowPrivilegeEscalation": True})
        ]
    },
    "host namespaces": {
        "hostNetwork": True,
        "hostPID": True,
        "containers": [container(securityContext=RESTRICTED)],
    },
    "host path": {
        "volumes": [
            {"name": "disk", "hostPath": {"path": "/"}},
            {"name": "share", "nfs": {"server": "s", "path": "/"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "containers": [container(securityContext=RESTRICTED)],
    },
    "host ports": {
        "containers": [
            container("a", ports=[{"containerPort": 80, "hostPort": 8080}], securityContext=RESTRICTED),
            container("b", ports=[{"containerPort": 81, "hostPort": 9090}], securityContext=RESTRICTED),
        ]
    },
    "capabilities": {
        "containers": [
            container(securityContext={**RESTRICTED, "capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}})
        ]
    },
    "a bind capability": {
        "containers": [
            container(
                securityContext={**RESTRICTED, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
            )
        ]
    },
    "profiles": {
        "securityContext": {
            "seccompProfile": {"type": "Unconfined"},
            "appArmorProfile": {"type": "Unconfined"},
        },
        "containers": [container(securityContext={**RESTRICTED, "seccompProfile": {"type": "Unconfined"}})],
    },
    "root": {
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
        "containers": [
            container(securityContext={k: v for k, v in RESTRICTED.items() if k != "runAsNonRoot"})
        ],
    },
    "root in a user namespace": {
        "hostUsers": False,
        "securityContext": {"runAsUser": 0},
        "containers": [
            container(securityContext={k: v for k, v in RESTRICTED.items() if k != "runAsNonRoot"})
        ],
    },
    "SELinux": {
        "securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}},
        "containers": [container(securityContext={**RESTRICTED, "seLinuxOptions": {"role": "r"}})],
    },
    "sysctls": {
        "securityContext": {
            "sysctls": [
                {"name": "net.core.somaxconn", "value": "1"},
                {"name": "net.ipv4.tcp_notsent_lowat", "value": "1"},
                {"name": "net.ipv4.tcp_rmem", "value": "1"},
            ]
        },
        "containers": [container(securityContext=RESTRICTED)],
    },
    "hosts of probes": {
        "containers": [
            container(
                livenessProbe={"httpGet": {"host": "other", "port": 80}},
                lifecycle={"preStop": {"httpGet": {"host": "third", "port": 80}}},
                securityContext=RESTRICTED,
            )
        ]
    },
}
MAIN = 'container "main"'
UNSET = (
    'allowPrivilegeEscalation != false (containers "init", "main" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers "init", "main" must set '
    'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or containers "init", "main" must set '
    'securityContext.runAsNonRoot=true), seccompProfile (pod or containers "init", "main" must set '
    'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
REFUSED: dict[tuple[str, str], str] = {
    ("restricted:latest", "nothing set"): UNSET,
    ("restricted:latest", "privileged"): (
        f"privileged ({MAIN} must not set securityContext.privileged=true), allowPrivilegeEscalation != false "
        f"({MAIN} must set securityContext.allowPrivilegeEscalation=false)"
    ),
    ("baseline:latest", "privileged"): f"privileged ({MAIN} must not set securityContext.privileged=true)",
    ("baseline:latest", "host namespaces"): "host namespaces (hostNetwork=true, hostPID=true)",
    ("baseline:latest", "host path"): 'hostPath volumes (volume "disk")',
    ("restricted:latest", "host path"): (
        'restricted volume types (volumes "disk", "share" use restricted volume types "hostPath", "nfs")'
    ),
    ("baseline:latest", "host ports"): 'hostPort (containers "a", "b" use hostPorts 8080, 9090)',
    ("baseline:latest", "capabilities"): (
        f'non-default capabilities ({MAIN} must not include "SYS_ADMIN" in securityContext.capabilities.add)'
    ),
    ("restricted:latest", "capabilities"): (
        f'unrestricted capabilities ({MAIN} must set securityContext.capabilities.drop=["ALL"]; {MAIN} must not '
        'include "CHOWN", "SYS_ADMIN" in securityContext.capabilities.add)'
    ),
    ("baseline:latest", "profiles"): (
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined"), seccompProfile (pod and '
        f'{MAIN} must not set securityContext.seccompProfile.type to "Unconfined")'
    ),
    ("restricted:latest", "root"): (
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set "
        "runAsUser=0)"
    ),
    ("restricted:v1.34", "root in a user namespace"): (
        f"runAsNonRoot != true (pod or {MAIN} must set securityContext.runAsNonRoot=true), runAsUser=0 (pod must not "
        "set runAsUser=0)"
    ),
    ("baseline:latest", "SELinux"): (
        f'seLinuxOptions (pod and {MAIN} set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be '
        "set; role may not be set)"
    ),
    ("baseline:latest", "sysctls"): "forbidden sysctls (net.core.somaxconn)",
    ("baseline:v1.36", "sysctls"): "forbidden sysctls (net.core.somaxconn, net.ipv4.tcp_notsent_lowat)",
    ("baseline:latest", "hosts of probes"): (
        f'probe or lifecycle host ({MAIN} uses probe or lifecycle hosts "other", "third")'
    ),
}
ACCEPTED = [
    ("privileged:latest", "privileged"),
    ("baseline:latest", "nothing set"),
    ("restricted:latest", "all set"),
    ("restricted:latest", "set for the pod"),
    ("restricted:latest", "a bind capability"),
    ("restricted:latest", "root in a user namespace"),
    ("baseline:v1.33", "hosts of probes"),
]


@newest
@pytest.mark.parametrize(("policy", "name"), [*REFUSED, *ACCEPTED])
async def test_a_namespace_refuses_the_pods_that_violate_its_standard(
    stage: Stage, policy: str, name: str
) -> None:
    # given
    level, _, version = policy.partition(":")
    await enforce(stage, level, version)
    # when
    refusal = await refusal_of(stage, SPECS[name])
    # then
    expected = REFUSED.get((policy, name), "")
    assert refusal == (f'"{policy}": {expected}' if expected else "")


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        (
            ("strict", "latest"),
            'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, '
            "baseline, restricted",
        ),
        (
            ("restricted", "1.30"),
            'metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: "1.30": must be "latest" or '
            '"v1.x"',
        ),
    ],
    ids=["level", "version"],
)
async def test_an_unreadable_label_of_a_namespace_is_refused(
    stage: Stage, labels: tuple[str, str], error: str
) -> None:
    with pytest.raises(InvalidError, match=re.escape(error)):
        await enforce(stage, *labels)


async def test_the_refused_pods_of_a_cloneset_are_its_reason_to_wait(stage: Stage) -> None:
    # given
    await enforce(stage, "restricted")
    await stage.start_manager()
    # when
    await stage.create(cloneset(replicas=2))

    # then
    async def is_said() -> bool:
        conditions = (await stage.status()).get("conditions") or []
        return any("violates PodSecurity" in condition["message"] for condition in conditions)

    await stage.until(is_said, what="the refusal")
    # when the namespace accepts them
    await enforce(stage, "baseline")
    # then
    await stage.settled(replicas=2)
