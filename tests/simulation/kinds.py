"""The kinds that can be simulated: one line each.

Script.kind ──▶ KINDS ──▶ SimulatedKind: resource, rules; seed ──▶ generate() by GENERATORS ──▶ Script
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS
from pykruise.kinds.gates import Gates
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.resources import CONFIG_MAPS, JOBS, POD_GROUPS, SECRETS, WORKLOADS, Resource
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.probes.api import NODE_POD_PROBES, POD_PROBE_MARKERS
from simulation import (
    generate_advancedcronjob,
    generate_blind,
    generate_broadcastjob,
    generate_cloneset,
    generate_config,
    generate_containerrecreaterequest,
    generate_daemonset,
    generate_ephemeraljob,
    generate_groups,
    generate_handover,
    generate_imagelistpulljob,
    generate_imagepulljob,
    generate_persistentpodstate,
    generate_podprobemarker,
    generate_podunavailablebudget,
    generate_resourcedistribution,
    generate_sidecarset,
    generate_statefulset,
    generate_uniteddeployment,
    generate_workloadspread,
)
from simulation.beside import Together
from simulation.budget_rules import BudgetRules
from simulation.cloneset_rules import CloneSetRules
from simulation.config_rules import FollowedRules
from simulation.cron_rules import CronRules
from simulation.daemonset_rules import DaemonSetRules
from simulation.distribution_rules import DistributionRules
from simulation.ephemeraljob_rules import EphemeralJobRules
from simulation.further_fields import with_further_fields
from simulation.group_rules import CloneSetGroupRules, JobGroupRules, StatefulSetGroupRules
from simulation.handover_rules import HandOverRules
from simulation.job_rules import JobRules
from simulation.probe_rules import ProbeRules
from simulation.pull_list_rules import ListRules
from simulation.pull_rules import CREATION_DELAY_S, PullRules
from simulation.recreation_rules import RecreationRules
from simulation.rules import WorkloadRules
from simulation.script import Script
from simulation.sidecar_rules import SidecarRules
from simulation.spread_rules import SpreadRules
from simulation.state_rules import StateRules
from simulation.statefulset_rules import StatefulSetRules
from simulation.uniteddeployment_rules import UnitedDeploymentRules

__all__ = ["GENERATORS", "KINDS", "SimulatedKind", "generate"]


Rules = (
    WorkloadRules[Any]
    | Together
    | JobRules
    | CronRules
    | UnitedDeploymentRules
    | DistributionRules
    | EphemeralJobRules
    | PullRules
)


class SimulatedKind(msgspec.Struct, frozen=True):
    """A kind as the simulation needs it: its resource, rules and surroundings."""

    resource: Resource
    """Resource of the workload in the scripts."""
    rules: Callable[..., Rules]
    """Called with namespace, name, start, skew_s and is_calm."""
    beside: Resource | None = None
    """The kind that acts on the workload's pods; its controller and webhooks run too."""
    makes: tuple[Resource, ...] = ()
    """Kinds of its children; the controllers of pykruise's kinds among them run too."""
    gates: Gates = Gates()
    """Feature gates of the manager and the webhooks."""
    flags: Mapping[str, Any] = {}
    """Flags of the manager."""
    is_made_by_script: bool = False
    """An operation of the script creates the object, because other objects must exist before."""


def _guarded(resource: Resource, workload: Callable[..., WorkloadRules[Any]]) -> SimulatedKind:
    """A workload whose pods a PodUnavailableBudget guards."""
    budget = partial(BudgetRules, target=f"{resource.plural}.{resource.group}")
    return SimulatedKind(
        resource,
        partial(Together, workload, resource.kind.lower(), budget),
        beside=POD_UNAVAILABLE_BUDGETS,
        gates=Gates.of(PodUnavailableBudgetUpdateGate=True),
    )


def _recreated(resource: Resource, workload: Callable[..., WorkloadRules[Any]]) -> SimulatedKind:
    """A workload whose containers are recreated by request."""
    rules = partial(Together, workload, resource.kind.lower(), RecreationRules)
    return SimulatedKind(resource, rules, beside=CONTAINER_RECREATE_REQUESTS)


_PULLING: Mapping[str, Any] = {
    "gates": Gates.of(ImagePullJobGate=True),
    "flags": {"nodeimage-creation-delay": CREATION_DELAY_S},
    "is_made_by_script": True,
}
KINDS: Mapping[str, SimulatedKind] = {
    "cloneset": SimulatedKind(CLONE_SETS, CloneSetRules),
    "rollonconfig": SimulatedKind(CLONE_SETS, FollowedRules, gates=Gates.of(RollOnConfig=True)),
    "podgroups": SimulatedKind(
        CLONE_SETS, CloneSetGroupRules, makes=(POD_GROUPS, WORKLOADS), gates=Gates.of(PodGroups=True)
    ),
    "podgroupjobs": SimulatedKind(
        BROADCAST_JOBS, JobGroupRules, makes=(POD_GROUPS, WORKLOADS), gates=Gates.of(PodGroups=True)
    ),
    "podgroupsets": SimulatedKind(
        ADVANCED_STATEFUL_SETS,
        StatefulSetGroupRules,
        makes=(POD_GROUPS, WORKLOADS),
        gates=Gates.of(PodGroups=True),
    ),
    "handover": SimulatedKind(CLONE_SETS, HandOverRules),
    "slots": SimulatedKind(CLONE_SETS, HandOverRules),
    "daemonset": SimulatedKind(DAEMON_SETS, DaemonSetRules),
    "statefulset": SimulatedKind(ADVANCED_STATEFUL_SETS, StatefulSetRules),
    "broadcastjob": SimulatedKind(BROADCAST_JOBS, JobRules),
    "advancedcronjob": SimulatedKind(ADVANCED_CRON_JOBS, CronRules, makes=(JOBS,)),
    "ephemeraljob": SimulatedKind(EPHEMERAL_JOBS, EphemeralJobRules),
    "resourcedistribution": SimulatedKind(
        RESOURCE_DISTRIBUTIONS,
        DistributionRules,
        makes=(SECRETS, CONFIG_MAPS),
        gates=Gates.of(ResourceDistributionGate=True),
    ),
    "imagepulljob": SimulatedKind(IMAGE_PULL_JOBS, PullRules, makes=(NODE_IMAGES,), **_PULLING),
    "imagelistpulljob": SimulatedKind(
        IMAGE_LIST_PULL_JOBS, ListRules, makes=(IMAGE_PULL_JOBS, NODE_IMAGES), **_PULLING
    ),
    "workloadspread": SimulatedKind(
        CLONE_SETS, partial(Together, CloneSetRules, "cloneset", SpreadRules), beside=WORKLOAD_SPREADS
    ),
    "uniteddeployment": SimulatedKind(UNITED_DEPLOYMENTS, UnitedDeploymentRules, makes=(CLONE_SETS,)),
    "sidecarset": SimulatedKind(
        CLONE_SETS,
        partial(Together, CloneSetRules, "cloneset", SidecarRules),
        beside=SIDECAR_SETS,
        gates=Gates.of(SidecarSetPatchPodMetadataDefaultsAllowed=True),
    ),
    "persistentpodstate": SimulatedKind(
        ADVANCED_STATEFUL_SETS,
        partial(Together, StatefulSetRules, "statefulset", StateRules),
        beside=PERSISTENT_POD_STATES,
    ),
    "podprobemarker": SimulatedKind(
        CLONE_SETS,
        partial(Together, CloneSetRules, "cloneset", ProbeRules),
        beside=POD_PROBE_MARKERS,
        makes=(NODE_POD_PROBES,),
    ),
    "containerrecreaterequest of CloneSet": _recreated(CLONE_SETS, CloneSetRules),
    "containerrecreaterequest of StatefulSet": _recreated(ADVANCED_STATEFUL_SETS, StatefulSetRules),
    "podunavailablebudget of CloneSet": _guarded(CLONE_SETS, CloneSetRules),
    "podunavailablebudget of StatefulSet": _guarded(ADVANCED_STATEFUL_SETS, StatefulSetRules),
    "podunavailablebudget of DaemonSet": _guarded(DAEMON_SETS, DaemonSetRules),
}


GENERATORS: Mapping[str, Callable[[int], Script]] = {
    "cloneset": generate_cloneset.generate,
    "rollonconfig": generate_config.generate,
    "podgroups": generate_groups.generate,
    "podgroupjobs": generate_groups.generate_job,
    "podgroupsets": generate_groups.generate_set,
    "daemonset": generate_daemonset.generate,
    "statefulset": generate_statefulset.generate,
    "broadcastjob": generate_broadcastjob.generate,
    "advancedcronjob": generate_advancedcronjob.generate,
    "imagepulljob": generate_imagepulljob.generate,
    "imagelistpulljob": generate_imagelistpulljob.generate,
    "blind": generate_blind.generate,
    "handover": generate_handover.generate,
    "slots": generate_handover.generate_slots,
    "workloadspread": generate_workloadspread.generate,
    "sidecarset": generate_sidecarset.generate,
    "uniteddeployment": generate_uniteddeployment.generate,
    "ephemeraljob": generate_ephemeraljob.generate,
    "resourcedistribution": generate_resourcedistribution.generate,
    "persistentpodstate": generate_persistentpodstate.generate,
    "containerrecreaterequest": generate_containerrecreaterequest.generate,
    "podprobemarker": generate_podprobemarker.generate,
    "podunavailablebudget": generate_podunavailablebudget.generate,
}
"""Generators of random scripts, by kind. `blind`: CloneSets whose manager does not know the current state; `handover`:
CloneSets whose leader changes."""


PLAIN = 500
"""Scripts of seeds below it stay as they are, because it is known which of them break rules."""


def generate(seed: int, generator: str = "cloneset") -> Script:
    """The script of this seed. From seed 500 on further fields are set, and every second manager decodes events
    of pods in batches."""
    script = GENERATORS[generator](seed)
    if seed < PLAIN:
        return script
    return msgspec.structs.replace(with_further_fields(script, generator), reads_in_portions=bool(seed % 2))
