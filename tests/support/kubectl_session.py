"""A long session with kubectl as data, and its outputs, made comparable between clusters.

SESSION ──▶ play(kubectl, folder) ──▶ {title: Answer}, masked: names with hashes, times, uids, addresses, widths
"""

import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

import msgspec
import yaml

from support.up import Kubectl, pauses

__all__ = ["DIFFERENCES", "DIFFERENCES_OF", "SESSION", "Answer", "Step", "play"]

NAMESPACE: Final = "session"
PATIENCE_S: Final = 60.0


class Answer(TypedDict):
    """A masked output of kubectl."""

    code: int
    out: Any
    err: str


class Step(msgspec.Struct, frozen=True):
    """One command. The session adds the namespace, unless the command names one."""

    title: str
    command: str
    """The words after `kubectl`, split at spaces; {folder} is where the files are."""
    stdin: str = ""
    until: str = ""
    """Repeat the command until its output contains this text."""
    whole: bool = False
    """Whether the output must equal the text in `until`: while an older pod terminates, the output contains more."""
    document: bool = False
    """The output is JSON or YAML."""
    editor: str = ""
    """A sed expression that changes the file of `edit`."""
    unordered: bool = False
    """The order of lines does not matter."""


def deployment(image: str = "nginx:1", replicas: int = 2, **labels: str) -> str:
    """A manifest of the Deployment `web`."""
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"app": "web", **labels}},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{"name": "main", "image": image, "ports": [{"containerPort": 80}]}],
                    },
                },
            },
        }
    )


def config_maps(*names: str) -> str:
    """ConfigMaps labelled set=prune, as a list."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"set": "prune"}},
            "data": {"key": name},
        }
        for name in names
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


PINNED: Final = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pinned", "labels": {"app": "drained"}},
        "spec": {
            "nodeName": "node-2",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "nginx:1"}],
        },
    }
)
LIMITS: Final = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "sizes"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "200m"},
                    "defaultRequest": {"cpu": "100m"},
                    "max": {"cpu": "1"},
                }
            ]
        },
    }
)
CLAIM: Final = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "unprovisioned-class",
        },
    }
)
STORING: Final = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "storing"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "nginx:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
)
BIG: Final = '{"spec":{"containers":[{"name":"big","image":"nginx:1","resources":{"limits":{"cpu":"2"}}}]}}'
AVAILABLE: Final = "get deployment web -o jsonpath={.status.availableReplicas}/{.status.replicas}"

SESSION: Final = (
    Step("a namespace is created", f"create namespace {NAMESPACE}"),
    # ── apply, and what there is ──
    Step("apply creates", "apply -f -", stdin=deployment()),
    Step("rollout status waits", "rollout status deployment/web --timeout=60s", until="successfully"),
    Step("apply again changes nothing", "apply -f -", stdin=deployment()),
    Step("get deployments", "get deployments"),
    Step("get deployments -o wide", "get deployments -o wide"),
    Step("get replica sets with labels", "get rs --show-labels"),
    Step("get pods by label", "get pods -l app=web"),
    Step("get pods by field", "get pods --field-selector=status.phase=Running -A -l app=web --no-headers"),
    Step("get nothing", "get pods -l app=none"),
    Step("get -o name", "get deployments,services -o name"),
    Step("get -o json", "get deployment web -o json", document=True),
    Step("get -o yaml", "get deployment web -o yaml", document=True),
    Step("get -o yaml of several kinds", "get deployments,replicasets -l app=web -o yaml", document=True),
    Step("get -o custom-columns", "get deploy web -o custom-columns=NAME:.metadata.name,N:.spec.replicas"),
    Step("get nodes", "get nodes --no-headers"),
    Step("get all", "get all -l app=web"),
    Step("get what is not there", "get pods none"),
    Step("get an unknown kind", "get gizmos"),
    Step("explain a field", "explain deployment.spec.strategy"),
    Step("explain an unknown field", "explain deployment.spec.nonsense"),
    Step("api-resources of a group", "api-resources --api-group=apps --no-headers", unordered=False),
    Step("api-versions", "api-versions", unordered=True),
    # ── changing it ──
    Step("diff shows a change", "diff -f -", stdin=deployment(replicas=3)),
    Step("apply configures", "apply -f -", stdin=deployment(replicas=3)),
    Step("wait for a condition", "wait --for=condition=Available deployment/web --timeout=60s"),
    Step(
        "wait for a field", "wait --for=jsonpath={.status.availableReplicas}=3 deployment/web --timeout=60s"
    ),
    Step("scale", "scale deployment/web --replicas=2"),
    Step("scale from a wrong size", "scale deployment/web --current-replicas=9 --replicas=1"),
    Step("label", "label deployment web tier=front"),
    Step("label again is refused", "label deployment web tier=back"),
    Step("label over it", "label deployment web tier=back --overwrite"),
    Step("annotate", "annotate deployment web kubernetes.io/change-cause=first"),
    Step("patch strategically", 'patch deployment web -p {"spec":{"minReadySeconds":1}}'),
    Step("patch by merge", 'patch deployment web --type=merge -p {"spec":{"minReadySeconds":0}}'),
    Step(
        "patch by JSON",
        'patch deployment web --type=json -p [{"op":"replace","path":"/spec/revisionHistoryLimit","value":5}]',
    ),
    Step(
        "a patch that changes nothing", 'patch deployment web --type=merge -p {"spec":{"minReadySeconds":0}}'
    ),
    Step("a patch that is wrong", 'patch deployment web --type=merge -p {"spec":{"replicas":-1}}'),
    Step(
        "edit",
        "edit deployment web",
        editor="s/minReadySeconds: .*/minReadySeconds: 0/;s/replicas: 2/replicas: 3/",
    ),
    Step("edit without a change", "edit deployment web", editor="s/nothing/else/"),
    # ── rollouts ──
    Step("set image", "set image deployment/web main=nginx:2"),
    Step(
        "the cause of the change is recorded",
        "annotate deployment web kubernetes.io/change-cause=second --overwrite",
    ),
    Step("rollout status of the update", "rollout status deployment/web --timeout=60s", until="successfully"),
    Step("the update settles", AVAILABLE, until="3/3"),
    Step("rollout history", "rollout history deployment/web"),
    Step("rollout history of a revision", "rollout history deployment/web --revision=2"),
    Step("rollout pause", "rollout pause deployment/web"),
    Step("rollout undo while paused", "rollout undo deployment/web"),
    Step("rollout resume", "rollout resume deployment/web"),
    Step("rollout undo", "rollout undo deployment/web"),
    Step("rollout status of the undo", "rollout status deployment/web --timeout=60s", until="successfully"),
    Step("the undo settles", AVAILABLE, until="3/3"),
    Step("the old image is back", "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}"),
    Step("rollout history after the undo", "rollout history deployment/web"),
    Step("rollout restart", "rollout restart deployment/web"),
    Step(
        "rollout status of the restart", "rollout status deployment/web --timeout=60s", until="successfully"
    ),
    # ── describing ──
    Step("describe a deployment", "describe deployment web"),
    Step("describe a node", "describe node node-3"),
    Step("describe what is not there", "describe pod none"),
    Step("events of an object", "events --for deployment/web --types=Normal --no-headers", unordered=True),
    Step("top is refused", "top pods"),
    Step("auth can-i", "auth can-i create pods"),
    Step("auth whoami", "auth whoami -o jsonpath={.status.userInfo.username}"),
    # ── other kinds ──
    Step("expose", "expose deployment web --port=80"),
    Step(
        "the endpoints settle",
        "get endpointslices -o jsonpath={.items[*].endpoints[*].conditions.ready}",
        until="true true true",
        whole=True,
    ),
    Step("describe a service", "describe service web"),
    Step("get endpoints", "get endpointslices -o jsonpath={.items[*].ports}"),
    Step("create a config map", "create configmap conf --from-literal=a=b"),
    Step("create it again", "create configmap conf --from-literal=a=b"),
    Step("create a job", "create job sum --image=busybox"),
    Step("wait for the job", "wait --for=condition=Complete job/sum --timeout=60s"),
    Step("get jobs", "get jobs"),
    Step("run a pod", "run alone --image=nginx:1"),
    Step("wait for the pod", "wait --for=condition=Ready pod/alone --timeout=60s"),
    Step("get the pod", "get pod alone"),
    Step("delete the pod at once", "delete pod alone --grace-period=0 --force"),
    # ── pruning ──
    Step("apply a set", "apply -f - -l set=prune", stdin=config_maps("one", "two")),
    Step(
        "apply a smaller set and prune",
        "apply -f - --prune -l set=prune --prune-allowlist=core/v1/ConfigMap",
        stdin=config_maps("one"),
    ),
    Step("what is left of the set", "get configmaps -l set=prune -o name"),
    # ── server-side apply ──
    Step("apply on the server", "apply --server-side -f -", stdin=config_maps("served")),
    Step(
        "a conflict on the server",
        "apply --server-side --field-manager=other -f -",
        stdin=config_maps("served").replace('"key": "served"', '"key": "taken"'),
    ),
    Step(
        "a conflict forced",
        "apply --server-side --field-manager=other --force-conflicts -f -",
        stdin=config_maps("served").replace('"key": "served"', '"key": "taken"'),
    ),
    # ── nodes ──
    Step("a pod on one node", "apply -f -", stdin=PINNED),
    Step("it runs", "wait --for=condition=Ready pod/pinned --timeout=60s"),
    Step("cordon", "cordon node-2"),
    Step("cordoned nodes are shown", "get node node-2 --no-headers"),
    Step("drain refuses a bare pod", "drain node-2 --pod-selector=app=drained"),
    Step("drain", "drain node-2 --pod-selector=app=drained --force"),
    Step("the pod is gone", "get pod pinned"),
    Step("uncordon", "uncordon node-2"),
    # ── limits ──
    Step("create a quota", "create quota few --hard=count/secrets=1,services=5"),
    Step("the quota is counted", "get quota few -o jsonpath={.status.used.services}", until="1"),
    Step("create a secret", "create secret generic one --from-literal=a=b"),
    Step("the secret is counted", "get quota few -o jsonpath={.status.used}", until='"count/secrets":"1"'),
    Step("a second secret is too many", "create secret generic two --from-literal=a=b"),
    Step("get quotas", "get quota"),
    Step("describe a quota", "describe quota few"),
    Step("delete the quota", "delete quota/few secret/one"),
    Step("a limit range", "apply -f -", stdin=LIMITS),
    Step("describe a limit range", "describe limitrange sizes"),
    Step("run a pod without resources", "run tiny --image=nginx:1"),
    Step("it has the default ones", "get pod tiny -o jsonpath={.spec.containers[0].resources}"),
    Step("run a pod that is too large", f"run big --image=nginx:1 --overrides={BIG}"),
    Step("delete the limit range", "delete limitrange/sizes pod/tiny"),
    # ── what waits ──
    Step("a claim of an unknown storage class", "apply -f -", stdin=CLAIM),
    Step("a pod that uses it", "apply -f -", stdin=STORING),
    Step(
        "it says what it waits for",
        "get pod storing -o jsonpath={.status.conditions[0].message}",
        until="0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ),
    Step("get the claim", "get pvc"),
    Step("the claim says why", "events --for pvc/data --no-headers", until='"unprovisioned-class" not found'),
    Step("delete pod and claim", "delete pod/storing pvc/data"),
    Step("create a priority class", "create priorityclass session --value=1000 --description=none"),
    Step("get priority classes", "get priorityclass session --no-headers"),
    Step("delete the priority class", "delete priorityclass session"),
    Step("create a cron job", "create cronjob tick --image=busybox --schedule=@yearly"),
    Step("get cron jobs", "get cronjobs"),
    Step("a job of it", "create job once --from=cronjob/tick"),
    Step("wait for that job", "wait --for=condition=Complete job/once --timeout=60s"),
    Step("delete the cron job", "delete cronjob/tick"),
    # ── leaving ──
    Step("delete leaves what it owned", "delete deployment web --cascade=orphan"),
    Step("the replica sets are there", "get rs -l app=web -o jsonpath={.items[*].metadata.ownerReferences}"),
    Step("another owner takes them over", "apply -f -", stdin=deployment(replicas=3)),
    Step("it is complete again", AVAILABLE, until="3/3"),
    Step("delete in the foreground", "delete deployment web --cascade=foreground --timeout=60s"),
    Step("nothing is left of it", "get rs,pods -l app=web"),
    Step(
        "delete many",
        "delete job,service,configmap -l set!=none --field-selector=metadata.name!=kube-root-ca.crt",
        unordered=True,
    ),
    Step("delete what is not there", "delete pod none"),
    Step("delete the namespace", f"delete namespace {NAMESPACE} --timeout=60s"),
)

DIFFERENCES: Final[Mapping[str, str]] = {
    "explain a field": "fields of built-in kinds have types and no descriptions",
    "api-versions": "groups whose kinds no controller here acts on are not served",
    "auth whoami": "the user of the kubeconfig has another name",
}
"""Steps in which the sandbox intentionally responds differently, with the reason."""

DIFFERENCES_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "1.32": {"get quotas": "the age comes last, as it does in 1.37"},
    "1.37": dict.fromkeys(
        ("get -o json", "get -o yaml", "get -o yaml of several kinds"),
        "pods on their way out are not counted (terminatingReplicas), as it is in 1.32",
    ),
}
"""Steps in which the sandbox differs from one minor version only: the versions differ, and it follows the other."""


def play(kubectl: Kubectl, folder: Path) -> dict[str, Answer]:
    """Run the whole session, and return the outputs by title."""
    return {step.title: _type(kubectl, step, folder) for step in SESSION}


def _type(kubectl: Kubectl, step: Step, folder: Path) -> Answer:
    words = step.command.format_map({"folder": str(folder)}) if "{folder}" in step.command else step.command
    arguments = words.split(" ")
    if not {"-A", "-n"} & set(arguments):
        arguments = ["-n", NAMESPACE, *arguments]
    end = time.monotonic() + PATIENCE_S
    waits = pauses()
    while True:
        done = kubectl.kubectl(*arguments, stdin=step.stdin or None, env=_editor(step, folder))
        is_over = done.stdout == step.until if step.whole else step.until in done.stdout
        if is_over or time.monotonic() > end:
            return _answer(step, done)
        time.sleep(next(waits))


def _editor(step: Step, folder: Path) -> dict[str, str]:
    if not step.editor:
        return {}
    script = folder / "editor.sh"
    script.write_text(f"#!/bin/sh\nsed -i '{step.editor}' \"$1\"\n")
    script.chmod(0o755)
    return {"KUBE_EDITOR": str(script)}


def _answer(step: Step, done: "subprocess.CompletedProcess[str]") -> Answer:
    out: Any
    if step.document and done.returncode == 0:
        out = masked_document(yaml.safe_load(done.stdout))
    elif step.until:
        # The number of repetitions, and the outputs before the last one, are not compared.
        out = f"... {step.until}" if step.until in done.stdout else masked(done.stdout)
    else:
        out = _without_chance(masked(done.stdout).splitlines())
        if step.unordered:
            out = sorted(set(out))
    return {"code": done.returncode, "out": out, "err": masked(done.stderr)}


# ── masks ────────────────────────────────────────────────────────────────────

_UID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MASKS: Final = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        (_UID, "UID"),
        (r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9.]{2,}(Z| [+-][0-9]{4}( [A-Z]+)?)?", "TIME"),
        (r"\b[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} [+-][0-9]{4}", "TIME"),
        (r"\b[a-z]+://[0-9a-f]{64}", "CONTAINER"),
        (r"sha256:[0-9a-f]{64}", "DIGEST"),
        (
            r"\b(web|alone|sum)-[bcdfghjklmnpqrstvwxz2456789]{5,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b",
            r"\1-HASH-POD",
        ),
        (r"\b(web|sum)-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b", r"\1-HASH"),
        (r"pod-template-hash=[a-z0-9]+", "pod-template-hash=HASH"),
        (r"\b[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]+)?(/[0-9]+)?\b", "ADDRESS"),
        (r"/tmp/[^ \t]*|/var/[^ \t]*", "PATH"),
        (r"\b([0-9]+[dhms])+\b", "AGE"),
        (r"resourceVersion: \"[0-9]+\"", "resourceVersion: VERSION"),
        (r"\bv1\.[0-9]+\.[0-9]+\b", "VERSION"),
        (r"\(x[0-9]+ over AGE\)", ""),
        # Which of many events are combined depends on how fast they came.
        (r"\(combined from similar events\): ", ""),
        (
            r"Annotations: +node.alpha.kubernetes.io/ttl: 0",
            "Annotations: <none>",
        ),  # the TTL controller writes it
        (r"generation: [0-9]+|observedGeneration: [0-9]+", "generation: N"),
        (r"[ \t]+", " "),
        (r"-{4,}|={4,}", "---"),
    )
)


def masked(text: str) -> str:
    """The text without parts that differ between runs."""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _without_chance(lines: list[str]) -> list[str]:
    """A description without the order of its events, and without the pods that happen to be on a node."""
    lines = [
        line for line in lines if not line.startswith(("Non-terminated Pods:", "session web-HASH-POD 0 (0%)"))
    ]
    if "Events:" in lines:
        begin = lines.index("Events:") + 1
        lines = [*lines[:begin], *sorted(set(lines[begin:]))]
    return lines


_VOLATILE: Final = frozenset(
    {"uid", "resourceVersion", "lastUpdateTime", "lastTransitionTime", "pod-template-hash"}
)


def masked_document(value: Any) -> Any:
    """A document without fields that differ between runs."""
    match value:
        case dict():
            return {
                masked(name): "MASKED" if name in _VOLATILE else masked_document(item)
                for name, item in value.items()
                if name != "creationTimestamp"  # null in templates, in some minors
            }
        case list():
            return [masked_document(item) for item in value]
        case str():
            return masked(value)
        case _:
            return value
