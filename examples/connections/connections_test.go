//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// environment gives variables to a program.
type environment map[string]string

func (e environment) get(name string) string { return e[name] }

var consenting = environment{folder.Consent: "true"}

func call(t *testing.T, env environment, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{getenv: env.get, stdin: strings.NewReader(""), stdout: &out, stderr: &errs, browser: openBrowser}
	status = p.run(t.Context(), args)
	exampletest.CheckSafe(t, out.String()+errs.String())
	if strings.Contains(out.String()+errs.String(), "canary") {
		t.Error("the output has a token")
	}
	for line := range strings.Lines(out.String()) {
		if screen.Width(strings.TrimSuffix(line, "\n")) > screen.Columns && !strings.Contains(line, "onnections in /") { // a path is shown whole
			t.Errorf("too wide: %q", line)
		}
	}
	return status, out.String(), errs.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFolder has a connection for everything that can be said of a login.
func newFolder(t *testing.T) (path string) {
	t.Helper()
	path = lockport.Quiet(t.TempDir(), "registry")
	dir, err := registry.OpenDir(path, registry.AllowPlainCredentials())
	must(t, err)
	add := func(workspace, alias string, expires time.Time) string {
		t.Helper()
		var options []registry.RegisterOption
		if alias != "" {
			options = append(options, registry.WithAlias(alias))
		}
		if workspace == "returns" {
			options = append(options, registry.WithInstance("instance_0123456789abcdef0123456789abcdef"))
		}
		c, err := dir.Register(t.Context(), registry.Descriptor{HubURL: "https://hub.example.com/bailing", ClientAppID: "commerce-agent", Workspace: workspace}, options...)
		must(t, err)
		if !expires.IsZero() {
			must(t, dir.SaveCredentials(t.Context(), c.Key, registry.Credentials{
				HubURL: c.HubURL, ClientAppID: c.ClientAppID, Workspace: c.Workspace, SessionID: "11111111-1111-4111-8111-111111111111",
				AccessToken: registry.NewSecret("canary-access"), RefreshToken: registry.NewSecret("canary-refresh"),
				AccessExpiresAt: expires.AddDate(0, -1, 0), RefreshExpiresAt: expires,
			}))
		}
		return c.Key
	}
	current := add("inventory", "门店 B", time.Date(2099, 2, 1, 8, 30, 0, 0, time.FixedZone("", 8*60*60)))
	add("orders", "", time.Date(2020, 2, 1, 0, 0, 0, 0, time.UTC))
	add("returns", strings.Repeat("a long alias ", 9)+"ends", time.Time{})
	damaged := add("suppliers", "dam aged", time.Date(2099, 2, 1, 0, 0, 0, 0, time.UTC))
	must(t, os.WriteFile(filepath.Join(path, "agent-connections", damaged+".json"), []byte(`{"access_token":"canary"}`), 0o600))
	must(t, dir.SetCurrent(t.Context(), current))
	// Another program can have written what this one would not.
	book := filepath.Join(path, "agent-connections.json")
	data, err := os.ReadFile(book)
	must(t, err)
	must(t, os.WriteFile(book, bytes.Replace(data, []byte("dam aged"), []byte("dam\u202eaged\u009b2J"), 1), 0o600))
	return path
}

func TestList(t *testing.T) {
	t.Parallel()
	path := newFolder(t)
	status, stdout, stderr := call(t, consenting, "--registry", path)
	if status != cli.OK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	// Where a line ends depends on the path.
	why := regexp.MustCompile(`(?m)^  why {7}(.*(?:\n {12}.*)*)`)
	reason := why.FindStringSubmatch(stdout)
	if reason == nil || !strings.Contains(strings.Join(strings.Fields(reason[1]), ""), strings.ReplaceAll(path+"/agent-connections/", " ", "")) {
		t.Errorf("the damaged file is not named: %q", reason)
	}
	stdout = why.ReplaceAllString(strings.ReplaceAll(stdout, path, "DIR"), "  why       …")
	exampletest.Golden(t, "list.txt", stdout)
}

// Whatever stands in the folder, a terminal gets none of it as it is.
func TestHostileWords(t *testing.T) {
	t.Parallel()
	allowed := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1 // an alias with one of these makes the file a damaged one
		}
		return r
	}, exampletest.HostileWords)
	for alias, status := range map[string]int{exampletest.HostileWords: cli.Failed, allowed: cli.OK} {
		path := newFolder(t)
		book := filepath.Join(path, "agent-connections.json")
		data, err := os.ReadFile(book)
		must(t, err)
		quoted, err := json.Marshal(alias)
		must(t, err)
		must(t, os.WriteFile(book, bytes.Replace(data, []byte(`"门店 B"`), quoted, 1), 0o600))
		for _, login := range []string{exampletest.HostileWords, `{"access_token":` + string(quoted) + `,` + string(quoted) + `:1}`} {
			files, err := filepath.Glob(filepath.Join(path, "agent-connections", "*.json"))
			must(t, err)
			for _, file := range files {
				must(t, os.WriteFile(file, []byte(login), 0o600))
			}
			got, stdout, stderr := call(t, consenting, "--registry", path)
			if got != status || status == cli.OK && (strings.Count(stdout, "hostile") != 1 || strings.Count(stdout, "damaged") < 3) {
				t.Errorf("status %d\n%s%s", got, stdout, stderr)
			}
		}
	}
}

func TestListWithoutConsent(t *testing.T) {
	t.Parallel()
	path := newFolder(t)
	for _, env := range []environment{nil, {folder.Consent: "1"}, {folder.Consent: ""}} {
		status, stdout, stderr := call(t, env, "--registry", path)
		if status != cli.OK || stderr != "" || strings.Count(stdout, "not read") != 4 || !strings.Contains(stdout, folder.Consent+"=true") {
			t.Errorf("status %d, stderr %q\n%s", status, stderr, stdout)
		}
	}
}

func TestListOfNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry")
	status, stdout, stderr := call(t, consenting, "--registry", path)
	if status != cli.OK || stderr != "" || stdout != "There are no connections in "+path+".\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error("listing has made the folder")
	}
}

func TestListOfADamagedFolder(t *testing.T) {
	t.Parallel()
	path := newFolder(t)
	must(t, os.Chmod(path, 0o755))
	status, stdout, stderr := call(t, consenting, "--registry", path)
	if status != cli.Failed || stdout != "" || !strings.HasPrefix(stderr, "connections: damaged: ") || !strings.Contains(stderr, path) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

func TestDefaultFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, test := range []struct {
		env  environment
		args []string
		path string
	}{
		{nil, nil, "/.config/bailinghub"},
		{environment{folder.Namespace: "dsh"}, nil, "/.config/bailinghub/hosts/host-6703e5724d5ccad952390392ac24108f"},
		{nil, []string{"--namespace", "dsh"}, "/.config/bailinghub/hosts/host-6703e5724d5ccad952390392ac24108f"},
		{environment{folder.Namespace: "dsh"}, []string{"--namespace", "dsh"}, "/.config/bailinghub/hosts/host-6703e5724d5ccad952390392ac24108f"},
		{environment{folder.Namespace: "dsh"}, []string{"--registry", home + "/other"}, "/other"},
	} {
		status, stdout, stderr := call(t, test.env, test.args...)
		if want := "There are no connections in " + home + test.path + ".\n"; status != cli.OK || stdout != want || stderr != "" {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %q", test.args, status, stdout, stderr, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env  environment
		args []string
		want string
	}{
		{nil, []string{"--token", "canary"}, "there is no flag --token"},
		{nil, []string{"shop"}, "there is no command of this name; there are list, login, logout, rename, status, use"},
		{nil, []string{"list", "shop"}, "list takes no argument"},
		{nil, []string{"--offline"}, "--offline is not for list"},
		{nil, []string{"login", "--hub", "https://hub.example.com"}, "login needs --client"},
		{nil, []string{"login", "--hub", "https://hub.example.com", "--client", "a1", "--workspace", "b1"}, folder.Consent},
		{consenting, []string{"login", "--hub", "https://hub.example.com", "--client", "a1", "--workspace", "b1", "--port", "0"}, "--port takes a number from 1 to 65535"},
		{consenting, []string{"login", "shop", "--hub", "https://hub.example.com", "--client", "a1", "--workspace", "b1"}, "login takes no argument"},
		{nil, []string{"status"}, folder.Consent},
		{consenting, []string{"status", "a", "b"}, "status takes one name at most"},
		{consenting, []string{"logout"}, "logout takes the name"},
		{consenting, []string{"use"}, "use takes the name"},
		{consenting, []string{"rename", "shop"}, "rename takes the name"},
		{nil, []string{"--registry", ""}, "--registry needs a folder"},
		{nil, []string{"--namespace", ""}, "--namespace needs a name"},
		{nil, []string{"--namespace", "A"}, "the storage namespace must be"},
		{environment{folder.Namespace: "../up"}, nil, "the storage namespace must be"},
		{environment{folder.Namespace: "dsh"}, []string{"--namespace", "other"}, "differ"},
		{nil, []string{"--namespace", "dsh", "--registry", "/registry"}, "--namespace is about the default folder"},
	} {
		status, stdout, stderr := call(t, test.env, test.args...)
		if status != cli.Usage || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q", test.args, status, stdout, stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t, nil, "-h")
	if status != cli.OK || stderr != "" || !strings.HasPrefix(stdout, "Connections logs people in") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// The program itself, with its own environment.
func TestProgram(t *testing.T) {
	t.Parallel()
	process := exampletest.Prepare(t, "--registry", newFolder(t))
	process.Env = append(process.Env, folder.Consent+"=true")
	process.Begin(t)
	output, status := process.Rest(t)
	for _, word := range []string{"logged in", "expired", "no login", "damaged"} {
		if strings.Count(output, " "+word+"\n") != 1 {
			t.Errorf("the output does not say %q once:\n%s", word, output)
		}
	}
	if status != cli.OK || process.Errors.String() != "" {
		t.Errorf("status %d, stderr %q", status, &process.Errors)
	}
}
