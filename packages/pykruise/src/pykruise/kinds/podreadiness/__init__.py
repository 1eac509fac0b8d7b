"""The first KruisePodReady of pods that no workload here looks after."""
