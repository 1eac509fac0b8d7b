"""Decisions of a node's agent, shared by real and simulated nodes: pure functions of the wanted and the observed state.

NodeImage, ContainerRecreateRequest, NodePodProbe + what the runtime says ──▶ these modules ──▶ what to do, status
"""
