//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package registry

import (
	"errors"
	"io/fs"
)

// A registry on disk cannot be opened on this system, so nothing here is ever
// called but newVault.

func newVault(*Dir, dirSettings) (vault, error) { return nil, fail(dpapi) }

func absolute(path string) (string, error) { return path, nil }

type folder struct{ stamp stamp }

func openFolder(string, steps) (*folder, error)             { return nil, fs.ErrNotExist }
func makeFolder(string, steps) (*folder, error)             { return nil, fs.ErrNotExist }
func lookFolder(string, followLinks) (stamp, error)         { return stamp{}, fs.ErrNotExist }
func lookFile(string) (stamp, error)                        { return stamp{}, fs.ErrNotExist }
func missingOr(string, error) error                         { return fs.ErrNotExist }
func (f *folder) open(string) (*folder, error)              { return nil, fs.ErrNotExist }
func (f *folder) make(string) (*folder, error)              { return nil, fs.ErrNotExist }
func (f *folder) look(string) (stamp, error)                { return stamp{}, fs.ErrNotExist }
func (f *folder) read(string, int64) ([]byte, stamp, error) { return nil, stamp{}, fs.ErrNotExist }
func (f *folder) draft(string) (*draft, error)              { return nil, fs.ErrNotExist }
func (f *folder) erase(string) error                        { return fs.ErrNotExist }
func (f *folder) canReplace(string) error                   { return nil }
func (f *folder) replaced(followLinks) bool                 { return true }
func (f *folder) sweep()                                    {}
func (f *folder) close()                                    {}

const readTries = 1

type draft struct{}

func (d *draft) reserve(int64) error   { return errors.ErrUnsupported }
func (d *draft) fill([]byte) error     { return errors.ErrUnsupported }
func (d *draft) replace() error        { return errors.ErrUnsupported }
func (d *draft) replaceIf(stamp) error { return errors.ErrUnsupported }
func (d *draft) discard()              {}
