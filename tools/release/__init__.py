"""Makes a release of a checkout, and pushes what it holds to registries.

staging.py ──▶ a copy of the committed sources with the version in it
    ──▶ distributions.py   wheels and source distributions
    ──▶ images.py          images of two architectures as OCI archives
    ──▶ chart.py           the chart as .tgz and as an OCI archive
    ──▶ plugin.py          kubectl kruise as one file for each platform, and the manifest of krew
    ──▶ manifests.py       what `pykruise install` and `pykruise crds` print
    ──▶ bills.py           CycloneDX bills of materials    ──▶ papers.py  checksums, provenance, notes
pushing.py: OCI archives ──▶ a registry
"""
