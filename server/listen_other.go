//go:build !linux

package server

import "syscall"

// readable is not known.
func readable(syscall.Conn) bool { return false }

// openFilesLimit is not known.
func openFilesLimit() uint64 { return 0 }
