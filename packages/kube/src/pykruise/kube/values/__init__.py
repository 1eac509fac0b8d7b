"""Values that Kubernetes writes into fields: quantities, selectors, names of images, schedules."""
