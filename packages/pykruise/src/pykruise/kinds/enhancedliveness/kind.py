"""Registration of enhanced liveness for the rest of the program. It is a step of pod admission that a feature gate
enables; it has no controller.

KIND ──▶ pod admission (plans/kind.py)
"""

from pykruise.kinds.enhancedliveness.pod_steps import STEPS
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind

KIND = Kind(resource=PODS, gates=("EnhancedLivenessProbe",), pods=STEPS)
