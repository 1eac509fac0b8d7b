"""All situations, by the name of their kind.

jobs.py, nodes.py, workloads.py, beside.py, clusters.py, around.py, needed.py, placed.py, scaled.py ──▶ SITUATIONS ──▶
tests/scenarios/test_situations.py
"""

from collections.abc import Mapping
from typing import Final

from support.situations.around import AROUND
from support.situations.beside import BUDGETS, DISTRIBUTIONS, POD_STATES, SIDECAR_SETS, SPREADS
from support.situations.clusters import MET
from support.situations.jobs import BROADCAST_JOBS, CRON_JOBS, EPHEMERAL_JOBS, REQUESTS
from support.situations.needed import NEEDED
from support.situations.nodes import LIST_JOBS, MARKERS, NODE_IMAGES, NODE_PROBES, PULL_JOBS
from support.situations.placed import PLACED
from support.situations.scaled import SCALED
from support.situations.workloads import CLONE_SETS, DAEMON_SETS, STATEFUL_SETS, UNITED
from support.situations.world import Situation

_TABLES: Final[Mapping[str, tuple[Situation, ...]]] = {
    "advancedcronjob": CRON_JOBS,
    "broadcastjob": BROADCAST_JOBS,
    "cloneset": CLONE_SETS,
    "containerrecreaterequest": REQUESTS,
    "daemonset": DAEMON_SETS,
    "ephemeraljob": EPHEMERAL_JOBS,
    "imagelistpulljob": LIST_JOBS,
    "imagepulljob": PULL_JOBS,
    "nodeimage": NODE_IMAGES,
    "nodepodprobe": NODE_PROBES,
    "persistentpodstate": POD_STATES,
    "podprobemarker": MARKERS,
    "podunavailablebudget": BUDGETS,
    "resourcedistribution": DISTRIBUTIONS,
    "sidecarset": SIDECAR_SETS,
    "statefulset": STATEFUL_SETS,
    "uniteddeployment": UNITED,
    "workloadspread": SPREADS,
}

_MORE: Final = (MET, AROUND, NEEDED, PLACED, SCALED)

SITUATIONS: Final[Mapping[str, tuple[Situation, ...]]] = {
    kind: (*rows, *(row for table in _MORE for row in table.get(kind, ()))) for kind, rows in _TABLES.items()
}
