"""Validation of pods and pod templates with the API server's messages."""
