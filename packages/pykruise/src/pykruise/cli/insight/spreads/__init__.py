"""WorkloadSpreads in plan and explain: they place other owners' pods and own none."""
