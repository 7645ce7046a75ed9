//go:build !privatedir_root

package privatedir

// IsOtherMount is the way for old kernels to see that a file is mounted by
// itself.
func (f *Folder) IsOtherMount(name string) bool { return f.handle.otherMount(name) }
