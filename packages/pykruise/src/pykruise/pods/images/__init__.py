"""Images that are pulled before pods need them: NodeImages and ImagePullJobs as other kinds see them."""
