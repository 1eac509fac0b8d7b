//go:build tools

// Package tools keeps the version of crane in go.mod.
package tools

import _ "github.com/google/go-containerregistry/cmd/crane"
