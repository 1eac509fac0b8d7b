"""WorkloadSpreads, as plan and explain know them: they place pods of others, and own none."""
