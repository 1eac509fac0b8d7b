//go:build tools

// Package tools names the Kubernetes commands of a node that build.py builds, so that
// go.mod and go.sum hold everything they need.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
