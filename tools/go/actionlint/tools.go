//go:build tools

// Package tools keeps the version of actionlint in go.mod.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
