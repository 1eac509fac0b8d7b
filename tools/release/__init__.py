"""Builds a release from a checkout, and pushes its images and chart to registries.

staging.py ──▶ a copy of the committed sources that contains the version
    ──▶ distributions.py   wheels and source distributions
    ──▶ images.py          images of two architectures as OCI archives
    ──▶ chart.py           the chart as .tgz and as an OCI archive
    ──▶ plugin.py          kubectl kruise as one file for each platform, and the manifest of krew
    ──▶ manifests.py       the output of `pykruise install` and `pykruise crds`
    ──▶ bills.py           CycloneDX bills of materials    ──▶ papers.py  checksums, provenance, notes
pushing.py: OCI archives ──▶ a registry
"""
