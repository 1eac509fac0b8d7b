"""PodProbeMarkers and NodePodProbes as other kinds see them."""
