package agentauth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/internal/grant"
)

func seed(f *testing.F, step string) {
	for _, c := range readRecorded(f) {
		if c.Step == step {
			f.Add([]byte(c.Answer.Raw))
		}
	}
}

func FuzzSession(f *testing.F) {
	seed(f, "session")
	f.Fuzz(func(t *testing.T, body []byte) {
		s, ok := agentauth.ParseSession(body)
		if ok && (len(s.ID) != 36 || len(s.Workspaces) == 0 || s.EndsAt.IsZero() || s.CreatedAt.IsZero() || s.AccessExpiresAt.IsZero()) {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzStarted(f *testing.F) {
	seed(f, "start")
	f.Fuzz(func(t *testing.T, body []byte) {
		address, lifetime, ok := agentauth.ParseStarted(body)
		if ok && (address == "" || lifetime < time.Second || lifetime > time.Hour) {
			t.Errorf("%q, %v", address, lifetime)
		}
	})
}

func FuzzGrant(f *testing.F) {
	seed(f, "exchange")
	f.Fuzz(func(t *testing.T, body []byte) {
		start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
		access, refresh := grant.Tokens(body)
		g, ok := grant.Parse(body)
		if !ok {
			return
		}
		if g.AccessToken != access || g.RefreshToken != refresh {
			t.Error("the tokens of a good grant are not found")
		}
		if a, r := g.Expiries(start); !r.After(a) || r.After(start.AddDate(2, 0, 0)) {
			t.Errorf("%v, %v", a, r)
		}
	})
}

// Whatever may be opened in a browser is https, or http to this machine, and of
// characters that no terminal obeys.
func FuzzMayOpen(f *testing.F) {
	for _, address := range []string{
		"https://business.example.com/a?b=c", "http://127.0.0.1:8080/a", "http://[::1]:8080", "http://localhost:8080", "javascript:alert(1)",
		"https://a@b.example.com", "https://b.example.com\\@c", "file:///etc/passwd", "HTTPS://B.EXAMPLE.COM", "https:", "http://127.0.0.1", "https://b.example.com:",
	} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if !agentauth.MayOpen(address) {
			return
		}
		parsed, err := url.Parse(address)
		if err != nil || parsed.User != nil || parsed.Host == "" || len(address) > 4096 || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"<>`\\", r) }) {
			t.Errorf("%q", address)
		}
		if parsed.Scheme != "https" && (parsed.Scheme != "http" || parsed.Hostname() != "127.0.0.1" && parsed.Hostname() != "::1" || parsed.Port() == "") {
			t.Errorf("%q", address)
		}
	})
}

// No callback but the right one ends a login, whatever stands in its query.
func FuzzCallback(f *testing.F) {
	f.Add("state=x&code=y")
	f.Add("error=access_denied")
	f.Add("state=&state=&code")
	f.Add("%zz;&=")
	f.Add("code=" + strings.Repeat("x", 5000))
	h := newHub(nil)
	client, err := agentauth.New(config(), agentclient.WithHTTPClient(&http.Client{Transport: h}))
	if err != nil {
		f.Fatal(err)
	}
	l, err := client.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	f.Fuzz(func(t *testing.T, query string) {
		if strings.Contains(query, l.State()) {
			return
		}
		if err := l.Paste(t.Context(), l.Redirect()+"?"+query); err == nil || strings.Contains(err.Error(), l.State()) {
			t.Errorf("%q: %v", query, err)
		}
	})
}
