//go:build tools

// Package tools names the etcd command that build.py builds, so that go.mod
// and go.sum hold everything it needs.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
