package hubtest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// peeking is a host that only peeks, under any token.
func peeking(t *testing.T, hub *hubtest.Hub, sessionID string) *host {
	return &host{t: t, client: &http.Client{Transport: hub.Peek(sessionID)}, url: "http://hub.example", token: "any"}
}

func TestPeekAnswersAsTheHubDoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 15, 0, 0, 0, 0, time.UTC)
	hub := hubtest.New(hubtest.WithClock(func() time.Time { return now }))
	t.Cleanup(hub.Close)
	s := hub.Login(hubtest.Grant{})
	other := hub.Login(hubtest.Grant{})
	id, err := hub.Submit(s.ID, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: hubtest.GovernedTool})
	if err != nil {
		t.Fatal(err)
	}
	both := func(name string, s hubtest.Session, path string, status int) {
		t.Helper()
		asked := newHost(t, hub, s).get(path)
		requests, version, log := hub.Requests(), hub.Version(), hub.Log()
		peeked := peeking(t, hub, s.ID).get(path)
		if peeked.status != status || cmp.Diff(asked, peeked, cmp.AllowUnexported(reply{})) != "" {
			t.Errorf("%s: peeked %d %s, asked %d %s", name, peeked.status, peeked.raw, asked.status, asked.raw)
		}
		if hub.Requests() != requests || hub.Version() != version || cmp.Diff(hub.Log(), log) != "" {
			t.Errorf("%s: peeking left a trace", name)
		}
	}
	both("capabilities", s, capabilitiesPath, 200)
	both("waiting", s, receiptPath(id), 200)
	if err := hub.Approve(id); err != nil {
		t.Fatal(err)
	}
	both("approved", s, receiptPath(id), 200)
	both("with a query", s, receiptPath(id)+"?x=1", 400)
	both("another session", other, receiptPath(id), 404)
	both("unknown", s, receiptPath(strings.Repeat("b", 64)), 404)
	for i, status := range map[hubtest.Inspection]int{
		hubtest.InspectionAbsent: 404, hubtest.InspectionAbsentWebPage: 200, hubtest.InspectionNewer: 200, hubtest.InspectionV1: 200,
	} {
		hub.SetInspection(i)
		if hub.Inspection() != i {
			t.Errorf("the Hub offers %v, not %v", hub.Inspection(), i)
		}
		both("another contract", s, receiptPath(id), status)
	}
	hub.SetInspection(hubtest.InspectionV1)
	if err := hub.Damage(id, hubtest.DamageApproval); err != nil {
		t.Fatal(err)
	}
	both("damaged", s, receiptPath(id), 503)
	hub.Break(hubtest.ControlPlane)
	both("broken", s, receiptPath(id), 401)
	hub.Repair()
	hub.Revoke(s.ID)
	both("revoked", s, receiptPath(id), 401)

	if got := peeking(t, hub, "nobody").get(capabilitiesPath); got.status != 401 {
		t.Errorf("a session that is not there: %d", got.status)
	}
}

func TestPeekRenewsAnExpiredToken(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 15, 0, 0, 0, 0, time.UTC)
	hub := hubtest.New(hubtest.WithClock(func() time.Time { return now }), hubtest.WithLifetimes(time.Minute, time.Hour))
	t.Cleanup(hub.Close)
	s := hub.Login(hubtest.Grant{})
	for after, want := range map[time.Duration]int{0: 200, time.Minute: 200, time.Hour: 401} {
		now = s.AccessExpiresAt.Add(after - time.Minute)
		if got := peeking(t, hub, s.ID).get(capabilitiesPath); got.status != want {
			t.Errorf("after %v: %d, want %d", after, got.status, want)
		}
	}
	if s, _ := hub.Session(s.ID); s.Rotations != 0 {
		t.Error("peeking renewed a token")
	}
}

func TestPeekMeetsNoFaultAndTakesNothingElse(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	hub.Inject(hubtest.Fault{Status: 500}, hubtest.Fault{Drop: hubtest.DropRequest})
	host := peeking(t, hub, s.ID)
	if got := host.get(capabilitiesPath); got.status != 200 || len(hub.Faults()) != 2 {
		t.Errorf("%d, and %d faults are left", got.status, len(hub.Faults()))
	}
	before := hub.Snapshot()
	for _, request := range [][2]string{
		{http.MethodPost, submitPath}, {http.MethodPost, resumePath(idA)}, {http.MethodPost, tokenPath}, {http.MethodGet, "/"}, {http.MethodHead, capabilitiesPath},
	} {
		if _, err := host.try(t.Context(), request[0], request[1], `{"route":"catalog-agent","tool":"product_update"}`); err == nil {
			t.Errorf("%s %s was taken", request[0], request[1])
		}
	}
	if hub.Snapshot() != before || hub.Requests().Total() != 0 {
		t.Error("something happened")
	}
	hub.Close()
	if got := host.get(capabilitiesPath); got.status != 200 {
		t.Errorf("once the Hub is closed: %d", got.status)
	}
}

func TestEditFaults(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	host := newHost(t, hub, hub.Login(hubtest.Grant{}))
	hub.Inject(hubtest.Fault{Status: 500, Times: -1}, hubtest.Fault{Status: 501, Skip: 2})
	hub.EditFaults(func(queue []hubtest.Fault) []hubtest.Fault {
		return append([]hubtest.Fault{{Status: 502}}, queue...)
	})
	want := []hubtest.Fault{{Status: 502, Times: 1}, {Status: 500, Times: -1}, {Status: 501, Skip: 2, Times: 1}}
	if diff := cmp.Diff(want, hub.Faults(), cmpopts.IgnoreFields(hubtest.Fault{}, "Hold", "Rewrite")); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
	for _, status := range []int{502, 500, 500} {
		if got := host.get(capabilitiesPath); got.status != status {
			t.Errorf("%d, want %d", got.status, status)
		}
	}
	hub.Faults()[0].Status = 404 // a copy
	hub.EditFaults(func(queue []hubtest.Fault) []hubtest.Fault { return queue[1:] })
	for _, status := range []int{200, 200, 501, 200} {
		if got := host.get(capabilitiesPath); got.status != status {
			t.Errorf("%d, want %d", got.status, status)
		}
	}
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "no status of HTTP") {
			t.Errorf("it panics with %q", said)
		}
	}()
	hub.EditFaults(func([]hubtest.Fault) []hubtest.Fault { return []hubtest.Fault{{Status: 7}} })
}

func TestSettingsCanBeRead(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	for _, paused := range []bool{false, true, false} {
		hub.SetPaused(paused)
		if hub.Paused() != paused {
			t.Errorf("paused: %t", hub.Paused())
		}
	}
}
