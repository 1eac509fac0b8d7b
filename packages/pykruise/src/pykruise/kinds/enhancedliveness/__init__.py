"""Enhanced liveness: liveness probes of pods are kept in an annotation."""
