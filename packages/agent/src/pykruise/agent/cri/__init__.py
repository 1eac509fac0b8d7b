"""The Container Runtime Interface (CRI v1), limited to the needs of a node agent."""
