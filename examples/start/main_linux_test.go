package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// said runs the program and gives what it printed.
func said(t *testing.T, store *registry.Dir, shop registry.Descriptor, path string) (string, error) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	err = run(t.Context(), store, shop, path)
	os.Stdout = stdout
	text := new(bytes.Buffer)
	if closing := write.Close(); closing != nil {
		t.Fatal(closing)
	}
	if _, reading := io.Copy(text, read); reading != nil {
		t.Fatal(reading)
	}
	return text.String(), err
}

// place is a folder of logins, a connection that goes into it, and a journal.
func place(t *testing.T, hubURL string) (*registry.Dir, registry.Descriptor, string) {
	t.Helper()
	shop := registry.Descriptor{HubURL: hubURL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
	key, err := shop.ConnectionKey()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	store, err := registry.OpenDir(lockport.Quiet(folder, "registry", key), registry.AllowPlainCredentials())
	if err != nil {
		t.Fatal(err)
	}
	return store, shop, filepath.Join(folder, "operations.jsonl")
}

func login(t *testing.T, store *registry.Dir, shop registry.Descriptor, session hubtest.Session) {
	t.Helper()
	connection, err := store.Register(t.Context(), shop)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SaveCredentials(t.Context(), connection.Key, session.Credentials(shop.HubURL, shop.Workspace)); err != nil {
		t.Fatal(err)
	}
}

// Whatever a Hub answers, a terminal gets none of it as it is.
func TestHostileWords(t *testing.T) {
	for name, server := range exampletest.HostileHubs(t, hubtest.DefaultRoute) {
		store, shop, path := place(t, server.URL)
		login(t, store, shop, hubtest.NewServer(t).Login(hubtest.Grant{}))
		text, err := said(t, store, shop, path)
		exampletest.CheckSafe(t, fmt.Sprint(text, err))
		if !strings.HasPrefix(text, "set the price of the blue mug: ") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	hub := hubtest.NewServer(t)
	store, shop, path := place(t, hub.URL)
	login(t, store, shop, hub.Login(hubtest.Grant{}))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	stdout := os.Stdout
	os.Stdout = full
	err = run(t.Context(), store, shop, path)
	os.Stdout = stdout
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
}

// The program of the README does what the README says.
func TestProgram(t *testing.T) {
	hub := hubtest.NewServer(t)
	session := hub.Login(hubtest.Grant{})
	store, shop, path := place(t, hub.URL)

	// Without a login nothing is kept and nothing is sent.
	if _, err := said(t, store, shop, path); err == nil || hub.Requests().Submit != 0 {
		t.Errorf("without a login: %v", err)
	}
	login(t, store, shop, session)

	// The answer of the business system is lost: the operation stays open.
	hub.Plan(hubtest.AnswerLost())
	text, err := said(t, store, shop, path)
	if err != nil || !strings.Contains(text, "set the price of the blue mug: The evidence does not settle what became of the operation") {
		t.Errorf("%q, %v", text, err)
	}
	// The program is started again: it asks, and sends nothing.
	sent := hub.Requests().Submit
	text, err = said(t, store, shop, path)
	if err != nil || strings.Count(text, "set the price of the blue mug: ") != 2 || hub.Requests().Submit != sent || sent != 1 {
		t.Errorf("%q, %v, %d submits", text, err, hub.Requests().Submit)
	}
	operations, err := journal.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer operations.Close()
	entry, err := operations.Find(context.Background(), "call_1")
	if err != nil || !entry.IsOpen() || entry.SendingAt.IsZero() {
		t.Errorf("%+v, %v", entry, err)
	}
}
