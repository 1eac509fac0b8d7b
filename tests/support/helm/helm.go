//go:build tools

// Package helm keeps Helm among the requirements of this module.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
