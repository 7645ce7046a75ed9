//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

// kept is a folder with a connection to a Hub, as a login done elsewhere
// leaves it.
type kept struct {
	running
	dir        *registry.Dir
	path       string
	connection registry.Connection
}

func newKept(t *testing.T, opts ...hubtest.Option) kept {
	t.Helper()
	server := hubtest.NewServer(t, opts...)
	t.Setenv(folder.Consent, "true")
	descriptor := registry.Descriptor{HubURL: server.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute}
	key, err := descriptor.ConnectionKey()
	if err != nil {
		t.Fatal(err)
	}
	k := kept{running: running{server, server.Login(hubtest.Grant{})}, path: lockport.Quiet(t.TempDir(), "registry", key)}
	if k.dir, err = registry.OpenDir(k.path, registry.AllowPlainCredentials()); err != nil {
		t.Fatal(err)
	}
	k.connection, err = k.dir.Register(t.Context(), descriptor, registry.WithAlias("shop"))
	if err != nil {
		t.Fatal(err)
	}
	err = k.dir.SaveCredentials(t.Context(), k.connection.Key, k.session.Credentials(k.connection.HubURL, k.connection.Workspace))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (k kept) args(more ...string) []string {
	return append([]string{"--registry", k.path, "--connection", "shop"}, more...)
}

func TestConnection(t *testing.T) {
	k := newKept(t)
	approved, hostile := k.play(t, situation.Approved), k.play(t, situation.HostileText)
	before := k.Snapshot()
	for _, name := range []string{"shop", k.connection.Key} {
		status, stdout, stderr := call(t, k.args("--connection", name, approved, hostile)...)
		if status != cli.OK || stderr != "" {
			t.Errorf("status %d, stderr %q", status, stderr)
		}
		checkSafe(t, stdout)
		exampletest.Golden(t, "running.txt", stdout) // the same answers, by another way
	}
	status, stdout, _ := call(t, k.args(situation.Read.As("missing", "").InvocationID(), approved)...)
	if status != cli.Failed || !strings.Contains(stdout, "1 answered, 1 not.") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	if k.Snapshot() != before {
		t.Error("asking changed something")
	}
	if requests := k.Requests(); requests.Total() != requests.Receipt+requests.Capabilities {
		t.Errorf("requests: %+v", requests)
	}
}

// A session is renewed as the host that logged in would renew it, and kept for
// the next one.
func TestConnectionIsRenewed(t *testing.T) {
	k := newKept(t, hubtest.WithLifetimes(10*time.Second, time.Hour))
	id := k.play(t, situation.Read)
	for n := range 3 {
		status, stdout, stderr := call(t, k.args(id)...)
		if status != cli.OK {
			t.Fatalf("status %d, stderr %q\n%s", status, stderr, stdout)
		}
		session, _ := k.Session(k.session.ID)
		stored, err := k.dir.Credentials(t.Context(), k.connection.Key)
		if err != nil || session.Rotations != n+1 || stored.RefreshToken.Reveal() != session.RefreshToken {
			t.Errorf("after %d rotations the folder has the tokens of the Hub or not, %v", session.Rotations, err)
		}
	}
}

func TestConnectionWithoutLogin(t *testing.T) {
	k := newKept(t)
	id := k.play(t, situation.Read)
	if err := k.dir.DeleteCredentials(t.Context(), k.connection.Key); err != nil {
		t.Fatal(err)
	}
	status, stdout, _ := call(t, k.args(id)...)
	if status != cli.Failed || !strings.Contains(stdout, "agent_authorization_unavailable") || !strings.Contains(stdout, "Have a person restore the access") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	if total := k.Requests().Total(); total != 0 {
		t.Errorf("%d requests were sent", total)
	}
}

func TestConnectionOfADamagedFolder(t *testing.T) {
	k := newKept(t)
	id := k.play(t, situation.Read)
	book := filepath.Join(k.path, "agent-connections.json")
	if err := os.Chmod(book, 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := call(t, k.args(id)...)
	if status != cli.Failed || stdout != "" || !strings.HasPrefix(stderr, "inspect: damaged: "+book) {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

func TestConnectionMistakes(t *testing.T) {
	k := newKept(t)
	id := k.play(t, situation.Read)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"no connection", []string{"--registry", k.path, id}, "--registry goes with --connection"},
		{"namespace without a connection", []string{"--namespace", "dsh"}, "--namespace goes with --connection"},
		{"both ways", k.args("--hub", k.URL, id), "--hub and --connection are two ways"},
		{"empty connection", k.args("--connection", "", id), "--connection needs"},
		{"another letter case", k.args("--connection", "Shop", id), "no connection of this alias or key"},
		{"another key", k.args("--connection", "conn_00000000000000000000000000000000", id), "no connection of this alias or key"},
		{"no id", k.args(), "no invocation id"},
		{"bad id", k.args(canary), "argument 1 is not an invocation id"},
		{"folder and namespace", k.args("--namespace", "dsh", id), "--namespace is about the default folder"},
		{"token-env", k.args("--token-env", "X", id), "--token-env goes with --hub"},
		{"bad namespace", []string{"--namespace", "A", "--connection", "shop", id}, "the storage namespace must be"},
	} {
		status, stdout, stderr := call(t, test.args...)
		if status != cli.Usage || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", test.name, status, stdout, stderr)
		}
	}
	t.Setenv(folder.Consent, "yes")
	status, stdout, stderr := call(t, k.args(id)...)
	if status != cli.Usage || stdout != "" || !strings.Contains(stderr, folder.Consent+"=true") {
		t.Errorf("without consent: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if total := k.Requests().Total(); total != 0 {
		t.Errorf("%d requests were sent", total)
	}
}
