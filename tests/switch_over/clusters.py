"""A control plane with OpenKruise's or pykruise's manager, and its objects before and after a switch.

Switching(plane, version) ──use("openkruise")──▶ that manager leads
                          ──use("pykruise")────▶
                          ──seen()─────────────▶ Seen: pods, objects, claims, revisions, by name
differences(before, after) ──▶ lines, empty if nothing changed
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from support.up import PYKRUISE
from switch_over.objects import Document, objects_at_rest
from testbed.control_plane import ControlPlane
from testbed.openkruise import NAMESPACE, OpenKruise
from testbed.processes import free_ports

__all__ = ["NODES", "Seen", "Switching", "differences", "without_specs"]

KINDS: Final = (
    "clonesets.apps.kruise.io,statefulsets.apps.kruise.io,daemonsets.apps.kruise.io,uniteddeployments,sidecarsets,"
    "workloadspreads,persistentpodstates,resourcedistributions,podunavailablebudgets,broadcastjobs,advancedcronjobs,"
    "imagepulljobs,imagelistpulljobs,podprobemarkers,nodeimages,controllerrevisions,deployments.apps,statefulsets.apps"
)
OWN: Final = "pykruise.io/"
UNSTABLE: Final = frozenset({"deployment.kubernetes.io/revision"})

NODES: Final = 4

LEADS_S: Final = 90.0
QUIET_S: Final = 6.0
"""Time without a change of pods after which a cluster counts as settled."""
SETTLES_S: Final = 150.0


class Seen(msgspec.Struct, frozen=True):
    """Objects that a switch must keep, by `kind namespace/name`."""

    pods: Mapping[str, Document]
    objects: Mapping[str, Document]


class Switching:
    """One cluster, its simulated nodes, and its manager."""

    def __init__(self, plane: ControlPlane, version: str, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.original = OpenKruise(plane, version)
        self._nodes: subprocess.Popen[bytes] | None = None
        self._own: subprocess.Popen[bytes] | None = None
        self.refused: dict[str, str] = {}
        """Objects that the release rejects, with its error messages."""

    async def begin(self) -> None:
        """Install the release, start its manager and four nodes, create all objects, and wait until all are settled."""
        self._start_nodes()
        await self.original.install()
        await self.original.start()
        await asyncio.sleep(2)  # API servers call its webhooks from then on
        served = self.served()
        for document in objects_at_rest(served):
            self.create(document)
        await self._has_node_images()
        await self.settled()

    async def end(self) -> None:
        """End all processes that this object started."""
        for process in (self._own, self._nodes):
            if process is not None:
                process.kill()
                process.wait()
        await self.original.stop()

    def create(self, document: Document) -> None:
        """Apply one object, and record its rejection by the release."""
        done = self.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump(document), check=False)
        if done.returncode:
            self.refused[f"{document['kind']} {document['metadata']['name']}"] = done.stderr.strip()

    async def use(self, manager: str, *, waits_s: float = 0.0, with_definitions: bool = False) -> None:
        """End the running manager, start the other one, and return when it leads. `waits_s`: time for rollouts before
        the switch. `with_definitions`: install the other manager's CRDs, too."""
        await asyncio.sleep(waits_s)
        before = self._holder()
        if manager == "pykruise":
            await self.original.stop()
            self._install_own(with_definitions=with_definitions)
            self._start_own()
        else:
            self._stop_own()
            if with_definitions:
                await self.original.install(kind="CustomResourceDefinition")
            await self.original.start()
        await self._leads(manager, before)

    async def use_beside(self, *, for_s: float) -> None:
        """Install and start pykruise's manager while the release's manager runs, and end that manager `for_s` seconds
        after both write the webhook configurations. Return when pykruise's manager leads.
        """
        before, port = self._holder(), free_ports(1)[0]
        self._install_own(with_definitions=False, port=port)
        self._start_own(port=port)
        async with asyncio.timeout(LEADS_S):
            while "webhooks are registered" not in self.own_log():
                await asyncio.sleep(0.5)
        await asyncio.sleep(for_s)
        await self.original.stop()
        await self._leads("pykruise", before)

    def webhooks(self) -> list[Document]:
        """The entries of both webhook configurations."""
        kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
        return [entry for item in self._items(kinds) for entry in item["webhooks"]]

    async def settled(self) -> None:
        """Return when pods and objects, without their statuses, have not changed for a while."""
        end = time.monotonic() + SETTLES_S
        last, since = self.seen(), time.monotonic()
        while time.monotonic() < end:
            await asyncio.sleep(1)
            now = self.seen()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET_S:
                return
        raise AssertionError("pods go on changing")

    def seen(self) -> Seen:
        """The current pods, objects, claims and revisions."""
        pods = {_name(pod): _pod(pod) for pod in self._items("pods")}
        objects = {_name(item): _object(item) for item in self._items(KINDS)}
        claims = {
            _name(item): {"uid": item["metadata"]["uid"]} for item in self._items("persistentvolumeclaims")
        }
        return Seen(pods, {**objects, **claims})

    def kubectl(
        self, *words: str, text: str | None = None, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """kubectl with the rights of an admin."""
        command = [str(self.plane.find_binary("kubectl")), f"--kubeconfig={self.plane.kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert not check or not done.returncode, f"{' '.join(words)}: {done.stderr}"
        return done

    def pykruise(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command of pykruise against the cluster."""
        command = [*PYKRUISE, *words, f"--kubeconfig={self.plane.kubeconfig}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def own_log(self) -> str:
        """The log of pykruise's managers."""
        return (self.folder / "manager.log").read_text(errors="replace")

    def get(self, what: str, name: str, namespace: str = "default") -> Document:
        """One object."""
        return _json(self.kubectl("get", what, name, "-n", namespace, "-o", "json").stdout)

    # ── parts ────────────────────────────────────────────────────────────────

    def _start_nodes(self) -> None:
        with (self.folder / "kubelets.log").open("ab") as log:
            command = [*PYKRUISE, "kubelets", f"--kubeconfig={self.plane.kubeconfig}", f"--nodes={NODES}"]
            self._nodes = subprocess.Popen([*command, "--volumes", "--agent"], stdout=log, stderr=log)

    def _items(self, what: str) -> list[Document]:
        items: list[Document] = _json(self.kubectl("get", what, "-A", "-o", "json").stdout)["items"]
        return items

    def served(self) -> Mapping[str, frozenset[str]]:
        """Versions by kind."""
        return {
            crd["spec"]["names"]["kind"]: frozenset(
                version["name"] for version in crd["spec"]["versions"] if version["served"]
            )
            for crd in self._items("customresourcedefinitions")
        }

    async def _has_node_images(self) -> None:
        """Return when each node has its NodeImage: some releases create them late."""
        async with asyncio.timeout(SETTLES_S):
            while len(self._items("nodeimages")) < len(self._items("nodes")):
                await asyncio.sleep(1)

    def _install_own(self, *, with_definitions: bool, port: int = 0) -> None:
        """Install pykruise. `with_definitions`: with its CRDs, which store the same versions as the release's."""
        command = [*PYKRUISE, "install", "--webhook-host=127.0.0.1"]
        if not with_definitions:
            command.append("--no-crds")
        elif self.original.version == "1.8":
            command.append("--stored-version=v1alpha1")
        command += [
            f"--webhook-port={port or self.original.webhook_port}",
            f"--feature-gates={self.original.gates}",
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=text)

    def _start_own(self, *, port: int = 0) -> None:
        environment = {
            **os.environ,
            "POD_NAMESPACE": NAMESPACE,
            "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_PORT": str(port or self.original.webhook_port),
        }
        command = [*PYKRUISE, "manager", f"--kubeconfig={self.plane.kubeconfig}", "-v=4"]
        command += [f"--{server}-addr=127.0.0.1:0" for server in ("metrics", "health-probe", "pprof")]
        command += [f"--feature-gates={self.original.gates}"]
        with (self.folder / "manager.log").open("ab") as log:
            self._own = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def _stop_own(self) -> None:
        process, self._own = self._own, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    async def _leads(self, manager: str, before: str) -> None:
        """Return when the Lease has another holder than before."""
        end = time.monotonic() + LEADS_S
        while time.monotonic() < end:
            holder = self._holder()
            if holder and holder != before and (self._own is None or self._own.poll() is None):
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"{manager} does not lead: {self.own_log()[-2000:] if self._own else ''}")

    def _holder(self) -> str:
        done = self.kubectl("get", "lease", "kruise-manager", "-n", NAMESPACE, "-o", "json", check=False)
        spec: Document = _json(done.stdout)["spec"] if not done.returncode else {}
        return f"{spec.get('holderIdentity') or ''}"


def without_specs(seen: Seen) -> Seen:
    """Remove the fields that differ between API versions. The generation shows whether the object changed."""
    versioned = ("spec", "data")
    objects = {
        name: {field: value for field, value in item.items() if field not in versioned}
        for name, item in seen.objects.items()
    }
    return Seen(seen.pods, objects)


def differences(before: Seen, after: Seen) -> list[str]:
    """One line for each pod or object that was deleted, created or changed."""
    return [
        *_differences("pod", before.pods, after.pods),
        *_differences("object", before.objects, after.objects),
    ]


def _differences(what: str, before: Mapping[str, Document], after: Mapping[str, Document]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{what} {name} is gone"
        elif name not in before:
            yield f"{what} {name} is new"
        else:
            old, new = before[name], after[name]
            for field in sorted(old.keys() | new.keys()):
                if old.get(field) != new.get(field):
                    yield f"{what} {name}: {field}: {old.get(field)} → {new.get(field)}"


def _name(document: Document) -> str:
    metadata = document["metadata"]
    return f"{document['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def _meta(document: Document) -> Document:
    metadata = document["metadata"]
    annotations = {
        name: text
        for name, text in (metadata.get("annotations") or {}).items()
        if not name.startswith(OWN) and name not in UNSTABLE
    }
    return {
        "uid": metadata["uid"],
        "labels": metadata.get("labels") or {},
        "annotations": annotations,
        "finalizers": metadata.get("finalizers") or [],
        "owners": [owner["uid"] for owner in metadata.get("ownerReferences") or ()],
    }


def _pod(pod: Document) -> Document:
    statuses = pod["status"].get("containerStatuses") or ()
    return {
        **_meta(pod),
        "images": {container["name"]: container["image"] for container in pod["spec"]["containers"]},
        "restarts": {status["name"]: status["restartCount"] for status in statuses},
        "ready": any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions") or ()
        ),
    }


def _object(document: Document) -> Document:
    generation = document["metadata"].get("generation")
    kept = {field: document.get(field) for field in ("spec", "data")}
    return {**_meta(document), "generation": generation, **kept}


def _json(text: str) -> Any:
    return json.loads(text)
