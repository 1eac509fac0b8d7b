"""Address of a cluster, and the identity of this program there."""
