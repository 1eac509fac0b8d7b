"""Pod readiness: sets the condition KruisePodReady of new pods whose controller does not set it."""
