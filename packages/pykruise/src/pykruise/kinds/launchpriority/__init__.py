"""Container launch priority: the containers of a pod start in order of their priority."""
