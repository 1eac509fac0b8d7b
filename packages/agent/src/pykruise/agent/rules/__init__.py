"""What an agent of a node decides, of real nodes and of simulated ones: pure functions of what is asked for and seen.

NodeImage, ContainerRecreateRequest, NodePodProbe + what the runtime says ──▶ these modules ──▶ what to do, status
"""
