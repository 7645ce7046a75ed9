package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bailinghub/bailinghub-go/registry"
)

// registry gives how to open the registry of a run, as often as wanted, and how
// to remove it. The keys are those of the connections to come.
func (c config) registry(keys []string) (open func() (book, error), remove func(), err error) {
	if !c.folder {
		one := registry.NewMemory()
		return func() (book, error) { return one, nil }, func() {}, nil
	}
	parent, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return nil, nil, err
	}
	folder := quietFolder(parent, keys)
	open = func() (book, error) { return registry.OpenDir(folder, registry.AllowPlainCredentials()) }
	return open, func() { os.RemoveAll(parent) }, nil
}

// quietFolder names a folder whose locks take ports that the kernel gives to
// nobody. A registry on disk takes a port of 127.0.0.1 for each lock, and a run
// makes thousands of connections there, each of which gets some port: one that
// lives long would keep a lock from everybody.
func quietFolder(parent string, keys []string) (folder string) {
	var first, last uint16
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &first, &last)
	}
	for n := range 10_000 { // of these, a quarter of the ports may be such
		folder = filepath.Join(parent, fmt.Sprintf("registry-%d", n))
		locks := []string{"registry:" + filepath.Join(folder, "agent-connections.json")}
		for _, key := range keys {
			locks = append(locks, "file:"+filepath.Join(folder, "agent-connections", key+".json"))
		}
		taken := map[uint16]bool{}
		quiet := true
		for _, lock := range locks {
			port := portOf(lock)
			quiet = quiet && !taken[port] && (port < first || port > last)
			taken[port] = true
		}
		if quiet {
			break
		}
	}
	return folder
}

// portOf is the port that stands for a lock (the Hub's SDKs agree on it).
func portOf(lock string) uint16 {
	hash := sha256.Sum256([]byte(lock))
	return uint16(10000 + binary.BigEndian.Uint32(hash[:4])%30000)
}
