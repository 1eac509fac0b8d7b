"""The actions of a plan, with the short names of the builder: `delete_object(plan) == {"a"}`."""

from typing import Any

from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.pods.view import keys
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan, Step
from support.cloneset_builder import NAME


def short(name: str) -> str:
    return name.removeprefix(f"{NAME}-")


def deleted(plan: Plan) -> set[str]:
    return {
        short(step.action.key.name)
        for step in plan.steps
        if isinstance(step.action, Delete) and step.action.resource == PODS
    }


def created(plan: Plan) -> list[dict[str, Any]]:
    """Documents of the pods to be created."""
    return [
        step.action.body
        for step in plan.steps
        if isinstance(step.action, Create) and step.action.resource == PODS
    ]


def created_claims(plan: Plan) -> list[str]:
    """Names of the claims to be created, in order."""
    return [
        step.action.key.name
        for step in plan.steps
        if isinstance(step.action, Create) and step.action.resource == PERSISTENT_VOLUME_CLAIMS
    ]


def deleted_claims(plan: Plan) -> set[str]:
    return {
        step.action.key.name
        for step in plan.steps
        if isinstance(step.action, Delete) and step.action.resource == PERSISTENT_VOLUME_CLAIMS
    }


def handed_over(plan: Plan) -> dict[str, str]:
    """Name of the claim → short name of the pod that owns it from then on."""
    return {
        step.action.key.name: short(step.action.body["metadata"]["ownerReferences"][-1]["name"])
        for step in plan.steps
        if isinstance(step.action, Patch)
        and step.action.resource == PERSISTENT_VOLUME_CLAIMS
        and "ownerReferences" in step.action.body["metadata"]
    }


def leaving_claims(plan: Plan) -> dict[str, str | None]:
    """Name of the PVC → uid of the pod with which it will be deleted; None: it is kept."""
    return {
        step.action.key.name: step.action.body["metadata"]["annotations"][keys.LEAVES_WITH_ANNOTATION]
        for step in plan.steps
        if isinstance(step.action, Patch)
        and step.action.resource == PERSISTENT_VOLUME_CLAIMS
        and "annotations" in step.action.body["metadata"]
    }


def created_revisions_of_pods(plan: Plan) -> list[str]:
    return [pod["metadata"]["labels"][keys.REVISION_LABEL] for pod in created(plan)]


def pod_patches(plan: Plan) -> dict[str, Patch]:
    return {
        short(step.action.key.name): step.action
        for step in plan.steps
        if isinstance(step.action, Patch) and step.action.resource == PODS
    }


def states(plan: Plan) -> dict[str, str]:
    """Pod → the lifecycle state that it is put into."""
    states = {
        name: patch.body.get("metadata", {}).get("labels", {}).get(keys.STATE_LABEL)
        for name, patch in pod_patches(plan).items()
    }
    return {name: state for name, state in states.items() if state}


def marked(plan: Plan) -> set[str]:
    """Pods that get the specified-delete label."""
    return {
        name
        for name, patch in pod_patches(plan).items()
        if keys.SPECIFIED_DELETE_LABEL in patch.body.get("metadata", {}).get("labels", {})
    }


def replaced(plan: Plan) -> set[str]:
    """Pods that are recreated now or as soon as they may go."""
    stages = [stage for stage in plan.stages if stage.purpose == "update pods"]
    return {short(chain.subject) for stage in stages for chain in stage.chains}


def left(plan: Plan) -> dict[str, str]:
    return {short(name): reason.message for name, reason in plan.skipped.items()}


def reasons(plan: Plan) -> set[str]:
    return {note.reason for note in plan.notes}


def steps_named(plan: Plan, stage: str) -> list[Step]:
    return [
        step for item in plan.stages if item.purpose == stage for chain in item.chains for step in chain.steps
    ]


def condition(plan: Plan, kind: str) -> dict[str, Any] | None:
    conditions = (plan.status or {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), None)
