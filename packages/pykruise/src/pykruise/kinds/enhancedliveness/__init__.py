"""Enhanced liveness: admission moves the liveness probes of pods into an annotation."""
