"""Simulated nodes: kubelets, their pods, faults."""
