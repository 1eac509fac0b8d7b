"""Images pulled ahead: NodeImages and ImagePullJobs as other kinds see them."""
