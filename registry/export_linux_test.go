package registry

import "os"

// IsOtherMount is the way for old kernels to see that a file is mounted by
// itself.
func IsOtherMount(folder, name string) bool {
	f, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer f.Close()
	return otherMount(int(f.Fd()), name)
}
