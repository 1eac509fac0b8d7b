"""Container launch priority: containers of a pod start one level after the other."""
