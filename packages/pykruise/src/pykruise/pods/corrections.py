"""Instructions for a person who corrects a pod template: the part of a remedy that differs between owners.

the owner of a pod ──▶ Correction ──▶ remedies of pods/lifecycle/blockers.py

Pure. Each kind keeps its template in another field. Some kinds do not apply a changed template to existing pods, and
some have a template that cannot be changed. A container that a SidecarSet injected is corrected in the SidecarSet.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.pods.injection_records import find_container_origin, list_injecting_sets


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """Field of the pod template, and the effect that a change of this field has on existing pods."""

    where: str = "spec.template"
    """Field that a person changes."""
    name: str = "the template"
    """Name of the field in words."""
    then: str = ""
    """Second step, needed when existing pods keep their old template."""
    again: str = ""
    """The object that must be created again because its template is immutable; empty if the template can be changed."""
    part: str = "template"
    """Part of that object that must be corrected in the new object."""

    def describe_for(self, what: str) -> str:
        """Instruction such as `correct the image in spec.template`."""
        return self._choose_instruction(f"correct {what} in {self.where}", f"with {what} corrected")

    def change(self, what: str) -> str:
        """Instruction such as `change the requests of spec.template`."""
        return self._choose_instruction(f"change the {what} of {self.where}", f"with other {what}")

    @property
    def whole(self) -> str:
        """Instruction for a template whose wrong field is unknown."""
        return self._choose_instruction(f"correct {self.name}", f"with a {self.part} that works")

    def _choose_instruction(self, changed: str, created: str) -> str:
        return f"create {self.again} again {created}" if self.again else f"{changed}{self.then}"


IN_TEMPLATE: Final = Correction()
"""Correction in a workload, which replaces or updates its pods."""
KEEPS_OLD_ONE: Final = ", then delete the pod, which keeps the old value"
OF_A_JOB: Final = Correction(then=KEEPS_OLD_ONE)
"""Correction in a job: existing pods stay unchanged, and a deleted pod is recreated from the new template."""
OF_THE_WORKLOAD: Final = Correction(
    where="the template of the pod's workload", name="the template of the pod's workload"
)
"""Correction in the workload of pods that the object only observes."""


CREATE_WHAT_IS_MISSING: Final = "create what is missing"
"""Instruction for a reference to an object that perhaps does not exist. Managers do not read such objects."""


def join_remedies(*remedies: str) -> str:
    """Return the remedies as alternatives, without the empty ones."""
    return "; or ".join(filter(None, remedies))


def drop_creation(remedy: str) -> str:
    """Return the remedy without CREATE_WHAT_IS_MISSING, for a caller that names the missing objects."""
    start = remedy.removeprefix(CREATE_WHAT_IS_MISSING)
    return remedy if start == remedy else start.removeprefix(", or ").removeprefix("; or ")


def replace_target(kind: str, name: str, *, of: str) -> str:
    """Instruction for an object whose spec.targetRef names a workload that does not exist. `of`: the object."""
    return f"create {kind} {name}; or create {of} again with another target, because spec.targetRef cannot be changed"


def correct_template_of(pod: str, own: Correction, *, has_workload: bool) -> Correction:
    """Return the correction for a pod. If the object only observes the pod, and the pod has no workload, only the pod
    itself can be created again. Otherwise return `own`.
    """
    return own if has_workload or own is not OF_THE_WORKLOAD else Correction(again=f"pod {pod}", part="spec")


def read_log(namespace: str, pod: str, container: str = "", *, previous: bool = False) -> str:
    """Instruction with the command that shows the log of a pod. `previous`: log of the run before the present one."""
    of_container = f" -c {container}" if container else ""
    return (
        f"read its log (kubectl logs -n {namespace} {pod}{of_container}{' --previous' if previous else ''})"
    )


def read_events(namespace: str, name: str, resource: str = "pod") -> str:
    """Instruction with the command that shows the events of an object."""
    return f"read its events (kubectl describe {resource} -n {namespace} {name})"


def create_pull_secret(namespace: str, name: str) -> str:
    """Return the command that creates a pull secret."""
    contents = "--docker-server=SERVER --docker-username=USER --docker-password=PASSWORD"
    return f"kubectl create secret docker-registry -n {namespace} {name} {contents}"


def describe_holders(names: Iterable[str]) -> str:
    """Return the subject and the verb of a sentence about finalizers: `finalizer a holds`, `finalizers a, b hold`."""
    names = tuple(names)
    return f"finalizer {names[0]} holds" if len(names) == 1 else f"finalizers {', '.join(names)} hold"


def release_finalizers(names: Iterable[str], of: str = "") -> str:
    """Instruction for finalizers that block the deletion of an object. `of`: the object, if the sentence does not name
    it otherwise.
    """
    names = tuple(names)
    place = f" from {of}" if of else ""
    if len(names) == 1:
        return f"the controller that is responsible for {names[0]} must remove it{place}"
    return f"the controllers that are responsible for {', '.join(names)} must remove them{place}"


def release_pod(names: Iterable[str], namespace: str, pod: str, *, first: str = "") -> str:
    """Instruction for finalizers of a pod that terminates, with the command for controllers that no longer run.
    `first`: instruction for the template, if it sets the finalizers on every new pod.
    """
    return release_object(names, f"pod -n {namespace} {pod}", first=first)


def release_object(names: Iterable[str], of: str, *, kept: Sequence[str] = (), first: str = "") -> str:
    """Instruction for finalizers that block the deletion of an object, with the command for controllers that no longer
    run. `of`: the object as kubectl names it; `kept`: its other finalizers; `first`: see `release_pod`.
    """
    names = tuple(names)
    gone = "this controller no longer runs" if len(names) == 1 else "these controllers no longer run"
    removal = (
        f"{first}, then remove the finalizers from each pod that still has them"
        if first
        else "remove the finalizers yourself"
    )
    quoted = ",".join(f'"{name}"' for name in kept)
    left = f"[{quoted}]" if kept else "null"
    return (
        f"{release_finalizers(names)}; if {gone}, {removal} (kubectl patch"
        f' {of} --type=merge -p \'{{"metadata":{{"finalizers":{left}}}}}\')'
    )


def end_by_force(namespace: str, pod: str) -> str:
    """Instruction that deletes a pod whose node does not stop it."""
    return f"delete the pod by force (kubectl delete pod -n {namespace} {pod} --grace-period=0 --force)"


def end_on_lost_node(node: str, namespace: str, pod: str, *, returns: bool) -> str:
    """Instruction for a pod that terminates on a node that does not respond. `returns`: the next pod must run on this
    node too, so the deletion of the pod would change nothing.
    """
    ways = [f"bring {node} back", "delete the node", *(() if returns else (end_by_force(namespace, pod),))]
    return ", or ".join(ways)


def open_gate(gate: str, namespace: str, pod: str) -> str:
    """Instruction for a readiness gate that another controller opens, with the command that opens it by hand."""
    condition = f'{{"status":{{"conditions":[{{"type":"{gate}","status":"True"}}]}}}}'
    return (
        f"the controller that is responsible for the condition {gate} must set it; if no controller does, set it"
        f" yourself (kubectl patch pod -n {namespace} {pod} --subresource=status -p '{condition}')"
    )


def correct_container(
    annotations: Mapping[str, str], container: str, own: Correction, *, is_in_place: bool = True
) -> Correction:
    """Return the correction of a container of a pod with these annotations: of the SidecarSet that injected the
    container, otherwise `own`, the correction of the owner's template. `is_in_place`: the SidecarSet applies such a
    change to existing pods.
    """
    origin = find_container_origin(annotations, container)
    if not origin:
        return own
    return Correction(where=origin, name=origin, then="" if is_in_place else KEEPS_OLD_ONE)


def correct_volumes(annotations: Mapping[str, str], own: Correction) -> Correction:
    """Return the correction of the volumes of a pod with these annotations. SidecarSets add volumes too, and pods do
    not record which ones.
    """
    names = list_injecting_sets(annotations)
    if not names or own.again:
        return own
    sets = f"SidecarSet {' or '.join(names)}"
    return Correction(where=f"{own.where} or in {sets}", name=f"{own.name} or {sets}", then=KEEPS_OLD_ONE)
