"""Pod readiness: sets the condition KruisePodReady of new pods that no workload of pykruise manages."""
