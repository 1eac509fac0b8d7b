"""Pod readiness: the first condition KruisePodReady of pods that no workload of pykruise manages."""
