package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// An operation is what the host keeps of one that it sends.
type operation struct {
	// About says what the operation is for, in the host's own words.
	About string `json:"about"`
	// Original is what the SDK needs to ask about it. It was captured before
	// the operation was sent.
	Original host.Original `json:"original"`
	// Open operations are those whose end the host has not seen. Only a receipt
	// closes one: no answer, no lost connection and no time that has passed.
	Open bool `json:"open"`
	// Progress is what the last receipt said; empty before the first.
	Progress receipt.Progress `json:"progress,omitempty"`
}

// journal is the file that survives the host: all its operations, as JSON. It
// holds no token. One host at a time uses it.
type journal struct {
	path       string
	operations []operation
}

// journalFile is the content of the file.
type journalFile struct {
	Version    int         `json:"version"`
	Operations []operation `json:"operations"`
}

const journalVersion = 1

// beginJournal is openJournal for a host that may not have sent anything yet.
func beginJournal(path string) (*journal, error) {
	j, err := openJournal(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &journal{path: path}, nil
	}
	return j, err
}

// openJournal reads the file. One that is not whole is an error, and stays as
// it is: what is in it may be all that is known of an operation.
func openJournal(path string) (*journal, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the operations cannot be read: %w", err)
	}
	operations, err := decodeJournal(text)
	if err != nil {
		return nil, fmt.Errorf("the file of operations is damaged (%w). It was left as it is, and nothing was sent. Have a person look at it", err)
	}
	return &journal{path: path, operations: operations}, nil
}

func decodeJournal(text []byte) ([]operation, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var content journalFile
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("there is something after its end")
	}
	if content.Version != journalVersion {
		return nil, fmt.Errorf("its version is not %d", journalVersion)
	}
	seen := map[string]bool{}
	for i, o := range content.Operations {
		id := o.Original.InvocationID
		if id == "" || seen[id] {
			return nil, fmt.Errorf("the invocation id of operation %d is missing, or there twice", i+1)
		}
		seen[id] = true
	}
	return content.Operations, nil
}

// add keeps one more operation. It is saved when add returns.
func (j *journal) add(o operation) error {
	j.operations = append(j.operations, o)
	return j.save()
}

// open gives the places of the open operations.
func (j *journal) open() (places []int) {
	for i, o := range j.operations {
		if o.Open {
			places = append(places, i)
		}
	}
	return places
}

// save replaces the file in one step: whoever reads it, and whenever the
// machine stops, finds either the old content or the new, and all of it.
func (j *journal) save() error {
	text, err := json.MarshalIndent(journalFile{Version: journalVersion, Operations: slices.Concat([]operation{}, j.operations)}, "", "  ")
	if err == nil {
		err = replaceFile(j.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("the operations cannot be saved: %w", err)
	}
	return nil
}

func replaceFile(path string, content []byte) (err error) {
	folder := filepath.Dir(path)
	temporary, err := os.CreateTemp(folder, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			temporary.Close()
			os.Remove(temporary.Name())
		}
	}()
	if _, err = temporary.Write(content); err != nil {
		return err
	}
	if err = temporary.Sync(); err != nil {
		return err
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	if err = os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be synced there
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
