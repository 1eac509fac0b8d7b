"""SidecarSets, as plan and explain know them: they change pods of others, and own none."""
