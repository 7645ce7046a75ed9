package hubtest_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// authCase is one answer of a real Hub's session code.
type authCase struct {
	Flow, Name string
	Setup      map[string]string
	Request    struct {
		Method, Path, Authorization, Note string
		Body                              json.RawMessage
		Raw                               *string
	}
	Answer struct {
		Status  int
		Headers map[string]string
		Raw     string
	}
}

// Flows whose cases each begin with a fresh login.
var freshFlow = regexp.MustCompile(`requests$|^methods and paths$|^lifetimes$`)

// authWorld is a Hub with the login of the recording, on a clock of its own.
type authWorld struct {
	*hubtest.Hub
	now    time.Time
	tokens []string // pairs: placeholder, token
	seen   int      // rotations
}

func newAuthWorld(t *testing.T) *authWorld {
	w := &authWorld{now: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
	w.Hub = newHub(t, hubtest.WithClock(func() time.Time { return w.now }))
	w.EditClient("demo-client", func(*hubtest.Client) {})
	w.EditClient("other-client", func(*hubtest.Client) {})
	s := w.Login(hubtest.Grant{ClientID: "demo-client", SessionID: "11111111-1111-4111-8111-111111111111", DeviceLabel: "dev", Principal: "p1", Routes: []string{"demo-route"}})
	w.tokens = []string{"<access0>", s.AccessToken, "<refresh0>", s.RefreshToken}
	return w
}

const authSession = "11111111-1111-4111-8111-111111111111"

// set arranges what the recording says was different.
func (w *authWorld) set(t *testing.T, setup map[string]string) {
	t.Helper()
	edit := func(f func(*hubtest.Session)) { w.EditSession(authSession, f) }
	client := func(f func(*hubtest.Client)) { w.EditClient("demo-client", f) }
	for what, how := range setup {
		switch what + " " + how {
		case "client disabled":
			client(func(c *hubtest.Client) { c.Disabled = true })
		case "client enabled":
			client(func(c *hubtest.Client) { c.Disabled = false })
		case "client without a page address":
			client(func(c *hubtest.Client) { c.NoAuthorizeURL = true })
		case "access expired":
			w.ExpireAccess(authSession)
		case "access 900 s left":
			edit(func(s *hubtest.Session) { s.AccessExpiresAt = w.now.Add(900 * time.Second) })
		case "session over":
			edit(func(s *hubtest.Session) { s.RefreshExpiresAt = w.now.Add(-time.Second) })
		case "session 600 s left":
			edit(func(s *hubtest.Session) { s.RefreshExpiresAt = w.now.Add(600 * time.Second) })
		case "agent_auth missing":
			w.Break(hubtest.AgentAuth)
		case "clients broken":
			w.Break(hubtest.ClientStorage)
		default:
			t.Fatalf("no setup %q: %q", what, how)
		}
	}
}

var recordedInstant = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z"`)

func TestRecordedSessionCode(t *testing.T) {
	t.Parallel()
	var cases []authCase
	readJSON(t, "hub-auth-recorded.json", &cases)
	if len(cases) != 66 {
		t.Fatalf("%d cases, want 66", len(cases))
	}
	var w *authWorld
	last := ""
	for _, c := range cases {
		if w == nil || c.Flow != last || freshFlow.MatchString(c.Flow) {
			w = newAuthWorld(t)
		}
		last = c.Flow
		w.set(t, c.Setup)
		body := string(c.Request.Body)
		if c.Request.Raw != nil {
			body = *c.Request.Raw
		}
		if strings.HasPrefix(c.Request.Note, "a body of 1 MiB") {
			body = `{"grant_type":"` + strings.Repeat("x", 1<<20) + `"}`
		}
		there := strings.NewReplacer(w.tokens...)
		got := ask(t, w.Hub, c.Request.Method, there.Replace(c.Request.Path), there.Replace(c.Request.Authorization), there.Replace(body), nil)

		if s, _ := w.Session(authSession); s.Rotations > w.seen {
			w.seen = s.Rotations
			n := strconv.Itoa(w.seen)
			w.tokens = append(w.tokens, "<access"+n+">", s.AccessToken, "<refresh"+n+">", s.RefreshToken)
		}
		got.Raw = backwards(w.tokens).Replace(got.Raw)
		got.Raw = recordedInstant.ReplaceAllString(got.Raw, `"<instant>"`)
		got.Raw = strings.NewReplacer(`"refresh_expires_in":2592000`, `"refresh_expires_in":"<what is left of 30 days>"`,
			`"refresh_expires_in":600`, `"refresh_expires_in":"<what is left of 600>"`).Replace(got.Raw)
		if id := got.Headers["x-request-id"]; id != "" {
			got.Headers["x-request-id"] = "<request id>"
			got.Raw = strings.ReplaceAll(got.Raw, id, "<request id>")
		}
		want := asked{c.Answer.Status, c.Answer.Headers, c.Answer.Raw}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s (-recorded +mock):\n%s", c.Flow, c.Name, diff)
		}
	}
}

// asked is what a Hub answered.
type asked struct {
	Status  int
	Headers map[string]string
	Raw     string
}

// ask sends one request to a Hub within the process.
func ask(t *testing.T, hub *hubtest.Hub, method, path, authorization, body string, header map[string]string) asked {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://hub.example"+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := hub.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := asked{res.StatusCode, map[string]string{}, string(raw)}
	for name, values := range res.Header {
		if name != "Date" && name != "Connection" {
			got.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	if len(res.TransferEncoding) > 0 {
		got.Headers["transfer-encoding"] = strings.Join(res.TransferEncoding, ", ")
	}
	return got
}

func (a asked) without(headers ...string) asked {
	a.Headers = maps.Clone(a.Headers)
	for _, name := range headers {
		delete(a.Headers, name)
	}
	return a
}

// backwards replaces the second of each pair by the first.
func backwards(pairs []string) *strings.Replacer {
	var turned []string
	for i := 0; i < len(pairs); i += 2 {
		turned = append(turned, pairs[i+1], pairs[i])
	}
	return strings.NewReplacer(turned...)
}

// readJSON reads a file of the vectors.
func readJSON(t *testing.T, name string, to any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}
