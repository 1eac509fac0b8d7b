"""Validation of pods and pod templates in the API server's words."""
