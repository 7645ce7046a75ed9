package journal_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/registry"
)

// world is a mock Hub, a host that is logged in to it, and its journal.
type world struct {
	hub       *hubtest.Hub
	session   hubtest.Session
	store     *registry.Memory
	key       string
	transport *host.Transport
	*journal.File
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{hub: hubtest.New(), store: registry.NewMemory(), File: open(t, newPath(t))}
	t.Cleanup(w.hub.Close)
	w.session = w.hub.Login(hubtest.Grant{})
	connection, err := w.store.Register(context.Background(), registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: w.session.ClientID, Workspace: hubtest.DefaultRoute})
	must(t, err)
	w.key = connection.Key
	w.login(t, w.session)
	w.transport, err = host.New(w.store, agentclient.WithHTTPClient(&http.Client{Transport: w.hub.Transport()}))
	must(t, err)
	return w
}

func (w *world) login(t testing.TB, s hubtest.Session) {
	t.Helper()
	must(t, w.store.SaveCredentials(context.Background(), w.key, s.Credentials("https://hub.example.com", hubtest.DefaultRoute)))
}

// begin begins a call, and sends it where tool is not empty.
func (w *world) begin(t testing.TB, call, tool string) journal.Entry {
	t.Helper()
	e, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: call, ConnectionKey: w.key, Tool: tool, About: "about " + call})
	must(t, err)
	if tool != "" {
		must(t, w.Sending(t.Context(), call))
		_, err := w.hub.Submit(w.session.ID, hubtest.Submission{InvocationID: e.Original.InvocationID, Route: hubtest.DefaultRoute, Tool: tool})
		must(t, err)
	}
	return e
}

func TestBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.begin(t, "call_1", "")
	stored, err := w.Find(t.Context(), "call_1")
	if err != nil || stored != e || e.About != "about call_1" || e.State != journal.StatePrepared || e.Original.ExpectedBinding.SessionID != w.session.ID || e.Original.SessionEnds.IsZero() {
		t.Errorf("%+v, %+v, %v", stored, e, err)
	}

	// A call that is there is answered from the journal, also without a login.
	must(t, w.store.DeleteCredentials(t.Context(), w.key))
	again, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: "call_1", ConnectionKey: w.key})
	if !errors.Is(err, journal.ErrExists) || again != e {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	for name, test := range map[string]struct {
		journal   journal.Journal
		transport *host.Transport
		call      journal.Call
		want      error
	}{
		"without a login":     {w, w.transport, journal.Call{CallID: "call_2", ConnectionKey: w.key}, feedback.CodeAgentAuthorizationUnavailable},
		"a bad key":           {w, w.transport, journal.Call{CallID: "call_2", ConnectionKey: "shop"}, feedback.CodeInvalidRequest},
		"no call id":          {w, w.transport, journal.Call{ConnectionKey: w.key}, feedback.CodeInvalidRequest},
		"without a journal":   {nil, w.transport, journal.Call{CallID: "call_2", ConnectionKey: w.key}, feedback.CodeInvalidRequest},
		"without a transport": {w, nil, journal.Call{CallID: "call_2", ConnectionKey: w.key}, feedback.CodeInvalidRequest},
	} {
		got, err := journal.Begin(t.Context(), test.journal, test.transport, test.call)
		if !errors.Is(err, test.want) || got != (journal.Entry{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	w.login(t, w.session)
	got, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: "call_3", ConnectionKey: w.key, Tool: "no tool"})
	if !errors.Is(err, feedback.CodeInvalidRequest) || got != (journal.Entry{}) {
		t.Errorf("a bad tool: %+v, %v", got, err)
	}
	if calls := callsOf(t, w); !slices.Equal(calls, []string{"call_1"}) {
		t.Errorf("%v are open", calls)
	}
}

// Of many who begin the same call at once, one sends.
func TestBeginAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type result struct {
		entry journal.Entry
		err   error
	}
	results := make(chan result)
	for range 16 {
		go func() {
			e, err := journal.Begin(t.Context(), w, w.transport, journal.Call{CallID: "call_1", ConnectionKey: w.key})
			results <- result{e, err}
		}()
	}
	begun, ids := 0, map[string]bool{}
	for range 16 {
		r := <-results
		ids[r.entry.Original.InvocationID] = true
		switch {
		case r.err == nil:
			begun++
		case !errors.Is(r.err, journal.ErrExists):
			t.Error(r.err)
		}
	}
	if begun != 1 || len(ids) != 1 {
		t.Errorf("%d have begun, with %d ids", begun, len(ids))
	}
}
