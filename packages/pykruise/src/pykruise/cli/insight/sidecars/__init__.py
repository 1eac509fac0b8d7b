"""SidecarSets in plan and explain: they change other owners' pods and own none."""
