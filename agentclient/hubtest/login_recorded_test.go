package hubtest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// loginFixture is the Hub of the recorded logins.
type loginFixture struct {
	Start   time.Time
	Clients map[string]loginClient
}

type loginClient struct {
	Name         string   `json:"name"`
	AuthorizeURL *string  `json:"agent_authorize_url"`
	Routes       []string `json:"allowed_routes"`
	Token        string   `json:"token"`
	Enabled      bool     `json:"enabled"`
}

// loginCase is one answer of a real Hub's login code.
type loginCase struct {
	Flow, Name, Step string
	Fresh            bool
	At               time.Time
	Before           []struct {
		Clock       *time.Time
		Client, Hub string
		Set         json.RawMessage
	}
	Request struct {
		Method, Path        string
		AuthorizationHeader string `json:"authorization_header"`
		ContentType         string `json:"content_type"`
		Headers             map[string]string
		Body                json.RawMessage
		Raw                 *string
		RawRepeat           *struct {
			Prefix, Unit, Suffix string
			Times                int
		} `json:"raw_repeat"`
	}
	Answer struct {
		Status  int
		Headers map[string]string
		Raw     string
	}
}

// loginWorld is a Hub in the course of a recorded flow.
type loginWorld struct {
	*hubtest.Hub
	now     time.Time
	clients map[string]loginClient
	// found are pairs of a placeholder and what the mock made up in its place.
	found []string
	kinds map[string]int
}

func (f loginFixture) world(t *testing.T) *loginWorld {
	w := &loginWorld{now: f.Start, clients: maps.Clone(f.Clients), kinds: map[string]int{}}
	w.Hub = newHub(t, hubtest.WithClock(func() time.Time { return w.now }))
	w.RemoveClient(hubtest.DefaultClient)
	for id := range f.Clients {
		w.setClient(id)
	}
	return w
}

func (w *loginWorld) setClient(id string) {
	is := w.clients[id]
	w.EditClient(id, func(c *hubtest.Client) {
		*c = hubtest.Client{Name: is.Name, Token: is.Token, Disabled: !is.Enabled, NoAuthorizeURL: is.AuthorizeURL == nil, Routes: is.Routes}
		if is.AuthorizeURL != nil {
			c.AuthorizeURL = *is.AuthorizeURL
		}
		if slices.Equal(is.Routes, []string{"*"}) {
			c.Routes = nil
		}
	})
}

// madeUp finds in an answer what a Hub makes up, in the order in which it stands there.
var madeUp = regexp.MustCompile(`synthetic-(?:access|refresh|code)-[0-9a-f]{32}|"(?:authorization_id|session_id|request_id)":"[0-9a-f-]{36}"`)

// note gives placeholders to what an answer makes known.
func (w *loginWorld) note(raw string) {
	for _, word := range madeUp.FindAllString(raw, -1) {
		kind, id := "", word
		if strings.HasPrefix(word, `"`) {
			kind, id, _ = strings.Cut(strings.Trim(word, `"`), `":"`)
		} else {
			kind = strings.Split(word, "-")[1]
		}
		if slices.Contains(w.found, id) {
			continue
		}
		n := w.kinds[kind]
		w.kinds[kind]++
		letters := strings.Repeat(string(rune('A'+n)), 43)
		w.found = append(w.found, map[string]string{
			"access": "bha_" + letters, "refresh": "bhr_" + letters, "code": "bhc_" + letters,
			"authorization_id": fmt.Sprintf("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaa%02d", n+1),
			"session_id":       fmt.Sprintf("bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbb%02d", n+1),
			"request_id":       fmt.Sprintf("cccccccc-cccc-4ccc-8ccc-cccccccccc%02d", n+1),
		}[kind], id)
	}
}

func TestRecordedLogins(t *testing.T) {
	t.Parallel()
	var fixture loginFixture
	readJSON(t, "hub-login-fixture.json", &fixture)
	var cases []loginCase
	readJSON(t, "hub-login-recorded.json", &cases)
	if len(cases) != 540 {
		t.Fatalf("%d cases, want 540", len(cases))
	}
	var w *loginWorld
	for _, c := range cases {
		if c.Fresh {
			w = fixture.world(t)
		}
		for _, b := range c.Before {
			switch {
			case b.Clock != nil:
				w.now = *b.Clock
			case b.Client != "":
				is := w.clients[b.Client]
				is.Routes = slices.Clone(is.Routes) // the fixture's own stays as it is
				if is.AuthorizeURL != nil {
					is.AuthorizeURL = new(*is.AuthorizeURL)
				}
				must(t, json.Unmarshal(b.Set, &is))
				w.clients[b.Client] = is
				w.setClient(b.Client)
			case b.Hub == "no login ledger":
				w.Break(hubtest.AgentAuth)
			case b.Hub == "login storage fails":
				w.Break(hubtest.AuthStorage)
			case b.Hub == "whole again":
				w.Repair()
			default:
				t.Fatalf("%s: %s: no such thing to do before: %+v", c.Flow, c.Name, b)
			}
		}
		if !w.now.Equal(c.At) {
			t.Fatalf("%s: %s: at %v, want %v", c.Flow, c.Name, w.now, c.At)
		}
		r := c.Request
		body := string(r.Body)
		switch {
		case r.Raw != nil:
			body = *r.Raw
		case r.RawRepeat != nil:
			body = r.RawRepeat.Prefix + strings.Repeat(r.RawRepeat.Unit, r.RawRepeat.Times) + r.RawRepeat.Suffix
		}
		there := strings.NewReplacer(w.found...)
		header := map[string]string{"Content-Type": "application/json"}
		if r.ContentType != "" {
			header["Content-Type"] = r.ContentType
		}
		maps.Copy(header, r.Headers)
		got := ask(t, w.Hub, r.Method, there.Replace(r.Path), there.Replace(r.AuthorizationHeader), there.Replace(body), header)
		w.note(got.Raw)

		back := backwards(w.found)
		got.Raw = back.Replace(got.Raw)
		if id := got.Headers["x-request-id"]; id != "" {
			got.Headers["x-request-id"] = back.Replace(id)
		}
		want := asked{c.Answer.Status, c.Answer.Headers, c.Answer.Raw}
		if diff := cmp.Diff(want, got.without("transfer-encoding")); diff != "" {
			t.Errorf("%s: %s (-recorded +mock):\n%s", c.Flow, c.Name, diff)
		}
	}
}
