"""Simulated nodes: kubelets, what runs on them, faults."""
