"""The node agent: does the work of OpenKruise's daemon on each node, through the node's container runtime.

NodeImage, ContainerRecreateRequest, NodePodProbe, pods of this node ──watch──▶ agent ──CRI──▶ container runtime
                                               status, annotations, events ◀──┘
"""
