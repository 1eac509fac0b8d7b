"""A long session with `kubectl kruise` as data, and its outputs, made comparable between clusters.

BUILT_IN ──▶ by_kubectl(), by_kruise() ──▶ Answer, masked      OURS ──▶ by_kruise()
"""

import asyncio
import re
import shlex
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykruise.cli.kubectl.entry import run
from pykruise.cli.kubectl.session import Surroundings
from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from support.up import Kubectl

__all__ = ["BUILT_IN", "MANIFESTS", "OURS", "Answer", "Step", "by_kruise", "by_kubectl"]


class Answer(msgspec.Struct, frozen=True):
    """A masked output."""

    code: int
    out: str
    err: str


class Step(msgspec.Struct, frozen=True):
    """One command, as typed after `kubectl` or `kubectl kruise`."""

    command: str
    is_last_line: bool = False
    """Whether only the last line of the output is compared, because the lines of a wait depend on timing."""


def by_kubectl(kubectl: Kubectl, namespace: str, folder: Path) -> Callable[[Step], Answer]:
    """kubectl in a namespace."""

    def typed(step: Step) -> Answer:
        done = kubectl.kubectl("-n", namespace, *shlex.split(step.command.format(folder=folder)))
        _wait_observed(kubectl, namespace)
        return _answer(step, done.returncode, done.stdout, done.stderr, namespace)

    return typed


def by_kruise(kubectl: Kubectl, namespace: str, folder: Path) -> Callable[[Step], Answer]:
    """`kubectl kruise` in this process, for the cluster of that kubeconfig."""

    def typed(step: Step) -> Answer:
        out: list[str] = []
        err: list[str] = []
        words = [
            "--kubeconfig",
            str(kubectl.kubeconfig),
            "-n",
            namespace,
            *shlex.split(step.command.format(folder=folder)),
        ]

        def become(_program: str, argv: list[str]) -> int:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
            out.append(done.stdout)
            err.append(done.stderr)
            return done.returncode

        code = run(words, Surroundings(out=out.append, err=err.append, become=become))
        _wait_observed(kubectl, namespace)
        return _answer(step, code, "".join(out), "".join(err), namespace)

    return typed


PATIENCE_S: Final = 30.0


def _wait_observed(kubectl: Kubectl, namespace: str) -> None:
    """Wait until controllers have observed the write: of two templates in quick succession they may observe only
    the last, which then has another revision. It does not use kubectl, whose start costs a hundred times as
    much."""
    asyncio.run(_observed(kubectl, namespace))


async def _observed(kubectl: Kubectl, namespace: str) -> None:
    transport = HttpTransport(load_kubeconfig(kubectl.kubeconfig))
    client = Client(transport)
    end = time.monotonic() + PATIENCE_S
    try:
        while behind := [name async for name in _behind(client, namespace)]:
            assert time.monotonic() < end, f"no controller has seen {', '.join(behind)}"
            await asyncio.sleep(0.02)
    finally:
        await transport.close()


async def _behind(client: Client, namespace: str) -> AsyncIterator[str]:
    for resource in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS):
        for document in map(decode, (await client.list(resource, namespace)).items):
            metadata = document["metadata"]
            if document.get("status", {}).get("observedGeneration") != metadata["generation"]:
                yield f"{resource} {metadata['name']}"


def _answer(step: Step, code: int, out: str, err: str, namespace: str) -> Answer:
    if step.is_last_line:
        out = out.rstrip("\n").rpartition("\n")[2]
    return Answer(code, masked(out, namespace), masked(err, namespace))


_MASKS: Final = (
    (re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (
        re.compile(
            r"\b(web|db|ag|cs|ast|ads)-[bcdfghjklmnpqrstvwxz2456789]{5,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b"
        ),
        r"\1-HASH",
    ),
    (re.compile(r"pod-template-hash[=:] ?\S+"), "pod-template-hash=HASH"),
    (re.compile(r'"?resourceVersion"?: "?[0-9]+"?'), "resourceVersion: N"),
    (re.compile(r"^[WE][0-9]{4} .*\] ", re.MULTILINE), "Warning: "),  # kubectl's log
    (re.compile(r"\b([0-9]+[smhd])+\b"), "AGE"),
    (re.compile(r"/(tmp|var)/\S*"), "PATH"),
)


def masked(text: str, namespace: str) -> str:
    """The text without parts that differ between runs or between the two programs."""
    text = text.replace("kubectl kruise", "kubectl").replace(namespace, "NAMESPACE")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


MANIFESTS: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {note: a b}}
    spec:
      terminationGracePeriodSeconds: 1
      serviceAccountName: default
      initContainers: [{name: prep, image: "busybox:1", command: [sh, -c, "echo a"]}]
      volumes: [{name: v, emptyDir: {}}]
      tolerations: [{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
      containers:
      - name: main
        image: nginx:1
        ports: [{containerPort: 80, name: http}, {containerPort: 90, protocol: UDP}]
        args: ["-a", "b"]
        env: [{name: A, value: "1"}, {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 100m}}
        volumeMounts: [{name: v, mountPath: /v, readOnly: true}]
      - {name: side, image: "side:1"}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "pg:1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ag}
spec:
  selector: {matchLabels: {app: ag}}
  template:
    metadata: {labels: {app: ag}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "ag:1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cfg}
data: {a.b: "1", c-d: "2"}
---
# kubectl takes several keys in any order
apiVersion: v1
kind: ConfigMap
metadata: {name: single}
data: {a.b: "1"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: v1
kind: Service
metadata: {name: s1}
spec: {selector: {app: s1}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rb}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: x}]
"""

DONE: Final = (
    Step("rollout status deploy/web --timeout=60s", is_last_line=True),
    Step("rollout status statefulset/db --timeout=60s", is_last_line=True),
    Step("rollout status ds ag --timeout=60s", is_last_line=True),
)


def _steps(text: str) -> Iterator[Step]:
    for line in text.strip().splitlines():
        if line and not line.startswith("#"):
            yield Step(line)


BUILT_IN: Final[Sequence[Step]] = (
    *DONE,
    *_steps("""
rollout history deploy/web
rollout history deploy/web --revision=1
rollout history deploy/web --revision=9
rollout history statefulset/db
rollout history statefulset/db --revision=1
rollout history ds/ag
rollout history deploy/web --revision=-1
rollout undo deploy/web
rollout undo deploy/web --to-revision=9
rollout undo statefulset/db
rollout pause deploy/web
rollout pause deploy/web
rollout restart deploy/web
rollout resume deploy/web
rollout resume deploy/web
rollout pause statefulset/db
rollout resume ds/ag
rollout restart svc/s1
rollout status svc/s1
rollout history svc/s1
rollout undo svc/s1
rollout status deploy/web --revision=7 --timeout=2s
rollout pause
rollout status
rollout status deploy/a deploy/b
rollout status foo/nope
rollout status --foo
rollout status -z
rollout status --revision=x deploy/web
rollout status --revision
rollout foo
rollout pause deploy/web svc
rollout pause deploy/web/x
rollout pause deploy/
rollout pause deploy
rollout resume deploy
rollout pause -f {folder}/session.yaml
rollout resume -f {folder}/session.yaml
rollout resume -f nofile.yaml
rollout pause deploy/web -o name
rollout resume deploy/web -o jsonpath={{.spec.replicas}}
rollout restart ds -l app=nope
rollout restart deploy/web deploy/nope
"""),
    *DONE,
    *_steps("""
set image deploy/web main=nginx:2
set image deploy/web main=nginx:2
set image deploy/web nope=nginx:2
set image deploy/web main=nginx:3 nope=1
set image deploy/web '*=a' b=c
set image deploy/web
set image deploy web side=x:2 --dry-run=client
set image deploy web side=x:2 --dry-run=server
set image deploy/web statefulset/db main=q:9
set image deploy/web main=nginx:2 -o name
set image svc/s1 main=nginx:4
set image --local -f {folder}/session.yaml main=q:8 -o name
set image --local deploy/web main=q:8
set image --all deploy main=q:8 -l a=b
set image main=q:8
set image deploy/nope main=nginx:4
set image deploy main=x
set image ds,statefulset main=q:11 --all
"""),
    *DONE,
    *_steps("""
set env deploy/web A=2
set env deploy/web A=2
set env deploy/web --list
set env deploy/web A-
set env deploy/web NOPE-
set env deploy/web X=1 --overwrite=false
set env deploy/web X=2 --overwrite=false
set env deploy/web X=2 -c nope
set env deploy/web X=2 X-
set env X=1
set env deploy/web
set env deploy/web X=1 statefulset/db
set env deploy/web --keys=a
set env deploy/web --from=secret/x
set env deploy/web --list -o yaml
set env deploy/web --from=cm/single
set env deploy/web --from=configmap/cfg --prefix=P_ --keys=c-d
set env deploy/web --list --resolve
set env deploy/web A=1 --dry-run=client
set env svc/s1 A=1
set resources deploy/web
set resources deploy/web --limits=cpu=x
set resources deploy/web --limits=cpu=200m,memory=512Mi -c side
set resources deploy/web --limits=cpu=200m -c nope
set resources deploy/web --limits=cpu=0 -c side
set resources svc/s1 --limits=cpu=1
set serviceaccount deploy/web default
set sa deploy web robot
set serviceaccount deploy/web
set selector deploy/web a=b
set selector svc s1 a=b
set selector svc s1 'a in (b)'
set subject rolebinding x
set subject rolebinding rb
set subject rolebinding rb --user=y --group=g --serviceaccount=default:q
set subject rolebinding rb --serviceaccount=q
set subject rolebinding rb --user=y
set foo
"""),
    *DONE,
    *_steps("""
scale deploy/web --replicas=3
scale deploy/web
scale deploy/web --replicas=-1
scale deploy/web --replicas=4 --current-replicas=9
scale deploy/web --replicas=x
scale deploy/web statefulset/db --replicas=3
scale deploy/web --replicas=5 --dry-run=client
scale deploy/web --replicas=5 --dry-run=server
scale deploy/web --replicas=1 -o name
scale deploy/nope --replicas=5
expose deploy/web
expose deploy/web --port=80 --target-port=8080 --name=w2
expose deploy/web --port=80 --dry-run=client -o yaml --name=w3
expose deploy/web --port=80 --dry-run=client -o json --name=w3
expose deploy/web --name=w4 --type=NodePort --dry-run=server
expose ds/ag --port=80
expose statefulset/db --port=80
expose deploy/nope
autoscale deploy/web --max=5 --min=2 --cpu=80% --name=h3 --dry-run=client -o yaml
autoscale deploy/web --max=5 --dry-run=client
autoscale deploy/web
autoscale deploy/web --max=2 --min=5
autoscale ds/ag --max=5
"""),
    *DONE,
    *_steps("""
rollout history deploy/web
rollout history deploy/web -o name
rollout history ds/ag -o name
rollout history deploy/web statefulset/db
rollout undo deploy/web --dry-run=client
rollout undo deploy/web --dry-run=server
rollout undo deploy/web
rollout undo ds/ag
rollout undo ds/ag --to-revision=2
rollout undo statefulset/db --to-revision=1
rollout history statefulset/db
wait deploy/nope --for=condition=Nope --timeout=1s
wait deploy/web --for=condition=Nope --timeout=1s
wait deploy/web --for=condition=Available --timeout=30s
"""),
)
"""Steps for Deployments, StatefulSets, DaemonSets and other built-in objects: kubectl has the same outputs."""


_WEB: Final = "rollout status clone/cs --timeout=60s"

OURS: Final[Sequence[Step]] = (
    Step(_WEB, is_last_line=True),
    Step("rollout status asts/ast --timeout=60s", is_last_line=True),
    Step("rollout status ads/ads --timeout=60s", is_last_line=True),
    *_steps("""
rollout history clone/cs
rollout history asts/ast --revision=1
rollout undo clone/cs
rollout pause clone/cs
rollout pause clone/cs
rollout resume clone/cs
rollout pause asts/ast ads/ads
rollout resume asts/ast ads/ads
rollout approve clone/cs
rollout restart svc/none
set image clone/cs x=y
set image clone/cs '*=a' b=c
set image clone/cs asts/ast ads/ads main=nginx:2
"""),
    Step(_WEB, is_last_line=True),
    Step("rollout status asts/ast --timeout=60s", is_last_line=True),
    Step("rollout status ads/ads --timeout=60s", is_last_line=True),
    *_steps("""
rollout history clone/cs --diff
rollout undo clone/cs --dry-run=client
rollout undo clone/cs asts/ast ads/ads
set env clone/cs A=1 --dry-run=client
set env clone/cs A=1
set env clone/cs --list
set resources clone/cs --limits=cpu=200m
set sa clone/cs default
set partition clone/cs 50%
set partition clone/cs 150%
set maxunavailable clone/cs 1
set maxsurge asts/ast 1
set update-strategy clone/cs InPlaceIfPossible
set update-strategy clone/cs Nope
set partition clone/cs 0
"""),
    Step(_WEB, is_last_line=True),
    *_steps("""
scale clone/cs --replicas=3
"""),
    Step(_WEB, is_last_line=True),
    Step("rollout status asts/ast --timeout=60s", is_last_line=True),
    *_steps("""
scaledown clone/cs
scaledown clone/cs --pods nope
scaledown deploy/nope --pods a
expose clone/cs
expose asts/ast --port=80 --dry-run=client -o yaml
expose ads/ads --port=80
autoscale clone/cs --max=4 --cpu=80% --dry-run=client -o yaml
create broadcastJob now --image=x:1 --dry-run=client -o yaml -- sleep 1
create broadcastJob now
create ContainerRecreateRequest r --pod nope
create crr r
create imagepulljob p --image=nginx:9 --nodes=node-1 --dry-run=client -o yaml
migrate CloneSet --from Deployment --src-name web
migrate CloneSet --from Job --src-name web --dst-name x
migrate StatefulSet --from Deployment
get all -l app=nope
get
rollot status
completion tcsh
wait clone/cs --for=condition=Nope --timeout=1s
rollout status clone/cs -w=false -o json
rollout status clone/cs asts/ast --timeout=60s
rollout status sidecarset/none
"""),
)
"""Steps for pykruise's kinds; they have the same outputs on every cluster."""
