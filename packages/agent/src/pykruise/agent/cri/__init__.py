"""The Container Runtime Interface (CRI v1), as far as a node agent needs it."""
