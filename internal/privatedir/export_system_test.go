//go:build !windows && !privatedir_root

package privatedir

// ByRoot tells that folders are kept by means of package os alone.
const ByRoot = false
