"""The node agent: what OpenKruise's daemon does on each node, through the container runtime there.

NodeImage, ContainerRecreateRequest, NodePodProbe, pods of this node ──watch──▶ agent ──CRI──▶ container runtime
                                               status, annotations, events ◀──┘
"""
