//go:build tools

// Package tools names the program that build.py builds, so that go.mod and go.sum hold everything it needs.
package tools

import (
	_ "sigs.k8s.io/descheduler/cmd/descheduler"
)
