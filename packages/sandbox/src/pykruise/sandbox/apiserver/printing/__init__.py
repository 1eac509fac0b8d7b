"""Objects as tables and partial metadata."""
