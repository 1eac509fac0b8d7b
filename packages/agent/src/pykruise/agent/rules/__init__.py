"""Decisions of a node's agent, shared by real and simulated nodes: pure functions of the wanted and the observed
state.

NodeImage, ContainerRecreateRequest, NodePodProbe + the runtime's state ──▶ these modules ──▶ actions, status
"""
