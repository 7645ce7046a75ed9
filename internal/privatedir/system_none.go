//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package privatedir

import (
	"errors"
	"syscall"
)

// No private folder can be opened on this system. Only the functions that open one
// are ever called.

const (
	errBusy         = syscall.EBUSY
	errNotPermitted = syscall.EPERM
)

type (
	folderHandle struct{}
	fileHandle   struct{}
)

var errNone = errors.ErrUnsupported

func workingFolder() (string, error)                           { return "", errNone }
func lookFolder(string, Links) (Stamp, error)                  { return Stamp{}, errNone }
func lookFile(string) (Stamp, error)                           { return Stamp{}, errNone }
func openFolder(string) (folderHandle, error)                  { return folderHandle{}, errNone }
func makeFolder(string) error                                  { return errNone }
func isLink(error) bool                                        { return false }
func unsyncable(error) bool                                    { return false }
func (s Stamp) ownedByUser() bool                              { return false }
func (s Stamp) ofFolder() Stamp                                { return s }
func (h folderHandle) close()                                  {}
func (h folderHandle) stamp() (Stamp, error)                   { return Stamp{}, errNone }
func (h folderHandle) sync() error                             { return errNone }
func (h folderHandle) look(string) (Stamp, error)              { return Stamp{}, errNone }
func (h folderHandle) openFolder(string) (folderHandle, error) { return folderHandle{}, errNone }
func (h folderHandle) makeFolder(string) error                 { return errNone }
func (h folderHandle) openFile(string) (fileHandle, error)     { return fileHandle{}, errNone }
func (h folderHandle) createFile(string) (fileHandle, error)   { return fileHandle{}, errNone }
func (h folderHandle) rename(string, string) error             { return errNone }
func (h folderHandle) exchange(string, string) error           { return errNone }
func (h folderHandle) erase(string) error                      { return errNone }
func (h folderHandle) obstacleTo(string) obstacle              { return noObstacle }
func (h folderHandle) names() []string                         { return nil }
func (h fileHandle) close()                                    {}
func (h fileHandle) stamp() (Stamp, error)                     { return Stamp{}, errNone }
func (h fileHandle) unlinked() bool                            { return false }
func (h fileHandle) makePrivate() error                        { return errNone }
func (h fileHandle) tryLock() (bool, error)                    { return false, errNone }
func (h fileHandle) readAt([]byte, int64) (int, error)         { return 0, errNone }
func (h fileHandle) writeAt([]byte, int64) (int, error)        { return 0, errNone }
func (h fileHandle) allocate(int64) error                      { return errNone }
func (h fileHandle) cut(int64) error                           { return errNone }
func (h fileHandle) sync() error                               { return errNone }
