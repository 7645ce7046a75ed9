package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// maxInvocations is how many invocations the page shows, the newest.
const maxInvocations = 100

// A state is all that the page shows. Every text in it has gone through
// [receipt.Printable] or is this program's own.
type state struct {
	Run         string            `json:"run"` // another one for every start of the program
	Counters    counters          `json:"counters"`
	Conditions  []string          `json:"conditions"` // what is not as usual
	Chosen      map[string]string `json:"chosen"`     // of each setting, by button
	Sessions    []sessionView     `json:"sessions"`
	Invocations []invocation      `json:"invocations"` // the newest first
	Older       int               `json:"older"`       // invocations that are not shown
	Log         []entry           `json:"log"`         // the newest first
	Logins      []login           `json:"logins"`      // under way or over, the newest first

	until time.Time // when time alone changes something of this; zero for never
}

type counters struct {
	Inspections  int `json:"inspections"`
	Negotiations int `json:"negotiations"`
	Performed    int `json:"performed"` // since there is a page
	Before       int `json:"before"`
	Requests     int `json:"requests"`
}

type sessionView struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	State     string  `json:"state"`
	Live      bool    `json:"live"`
	Rotations int     `json:"rotations"`
	Buttons   []press `json:"buttons"`
}

// A login is an authorization: somebody asked a person to agree.
type login struct {
	ID      string  `json:"id"`
	Device  string  `json:"device"`
	For     string  `json:"for"` // the client app and its workspaces
	State   string  `json:"state"`
	Live    bool    `json:"live"`
	Page    string  `json:"page,omitempty"` // where the person decides, while they can
	Buttons []press `json:"buttons"`
}

// maxLogins is how many authorizations, and how many sessions that came of
// them, the page shows: the newest.
const maxLogins = 20

// A press is a button to press.
type press struct {
	Do    string `json:"do"`
	Value string `json:"value,omitempty"`
	Label string `json:"label"`
}

type entry struct {
	N       int    `json:"n"`
	Time    string `json:"time"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Status  string `json:"status"`
	Session string `json:"session"`
}

// look gives the state as JSON, made anew where the Hub has changed or time has
// changed what it says; until is when time does so next, zero for never.
func (p *Page) look() (state []byte, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	over := !p.until.IsZero() && !now.Before(p.until)
	if version := p.hub.Version(); p.state == nil || version != p.version || over {
		p.version = version
		made := p.observe(now)
		p.until = made.until
		p.state, _ = json.Marshal(made) // strings, numbers and lists of them
	}
	return p.state, p.until
}

// changes notes that time changes what the state says, at this instant.
func (s *state) changes(now, at time.Time) {
	if at.After(now) && (s.until.IsZero() || at.Before(s.until)) {
		s.until = at
	}
}

func (p *Page) observe(now time.Time) state {
	requests := p.hub.Requests()
	s := state{
		Run: p.started.Format(time.RFC3339Nano),
		Counters: counters{
			Inspections:  requests.Receipt,
			Negotiations: requests.Capabilities,
			Performed:    p.hub.BusinessOperations() - p.before,
			Before:       p.before,
			Requests:     requests.Total(),
		},
	}
	s.Chosen, s.Conditions = p.settings()

	names := map[string]string{}
	for _, known := range p.sessions {
		names[known.ID] = receipt.Printable(known.Name)
		session, _ := p.hub.Session(known.ID)
		s.session(now, names[known.ID], session)
	}
	loggedIn := 0
	for _, session := range slices.Backward(p.hub.Sessions()) {
		if names[session.ID] != "" {
			continue
		}
		names[session.ID] = receipt.Printable(orElse(session.SubjectName, session.Principal))
		if loggedIn++; loggedIn <= maxLogins {
			s.session(now, names[session.ID], session)
		}
	}
	for _, a := range slices.Backward(p.hub.Authorizations()) {
		if len(s.Logins) < maxLogins {
			s.login(now, a)
		}
	}
	asked := map[string]asked{} // by path
	for _, e := range slices.Backward(p.hub.Log()) {
		shown := entry{
			N: e.N, Time: e.Time.Format(clock), Method: receipt.Printable(e.Method), Path: receipt.Printable(e.Path),
			Status: "lost", Session: names[e.SessionID],
		}
		if e.Status != 0 {
			shown.Status = fmt.Sprint(e.Status)
		}
		s.Log = append(s.Log, shown)
		if e.Kind == hubtest.ReceiptRequest {
			a := asked[e.Path]
			if a.Times++; a.Times == 1 {
				a.Last, a.Status = shown.Time, shown.Status
			}
			asked[e.Path] = a
		}
	}

	records := p.hub.Records()
	newest := make([]*hubtest.Record, len(records))
	for i := range records {
		newest[i] = &records[i]
	}
	slices.SortStableFunc(newest, func(a, b *hubtest.Record) int { return cmp.Compare(b.Job.ID, a.Job.ID) })
	if s.Older = max(0, len(newest)-maxInvocations); s.Older > 0 {
		newest = newest[:maxInvocations]
	}
	ask := newInquirer(p.hub)
	for _, r := range newest {
		view := ask.about(*r, orElse(names[r.Job.Marker.SessionID], "another session"))
		view.Asked = asked[receiptPath(r.InvocationID)]
		s.Invocations = append(s.Invocations, view)
	}
	return s
}

const clock = "15:04:05.000"

// settings gives what is chosen of each setting of the Hub, and says what is
// not as usual.
func (p *Page) settings() (chosen map[string]string, conditions []string) {
	chosen = map[string]string{"pause": "off", "latency": "0"}
	note := func(text string) {
		if text != "" {
			conditions = append(conditions, text)
		}
	}
	system := systems[p.system.Load()]
	chosen["system"] = system.value
	note(system.note)
	if p.hub.Paused() {
		chosen["pause"] = "on"
		note(pausedNote)
	}
	for _, c := range contracts {
		if c.inspection == p.hub.Inspection() {
			chosen["contract"] = c.value
			note(c.note)
		}
	}
	waiting := map[hubtest.Drop]int{}
	for _, fault := range p.hub.Faults() {
		waiting[fault.Drop]++
		if ms := int(fault.Latency.Milliseconds()); ms > 0 {
			chosen["latency"] = fmt.Sprint(ms)
			note(latencyNote(ms))
		}
	}
	for _, d := range drops {
		switch n := waiting[d.drop]; n {
		case 0:
		case 1:
			note("1 connection is going to be " + d.note + ".")
		default:
			note(fmt.Sprintf("%d connections are going to be %s.", n, d.note))
		}
	}
	return chosen, conditions
}

// session adds a session to the state.
func (s *state) session(now time.Time, name string, session hubtest.Session) {
	expire, end := press{Do: "expire", Label: "Expire its token"}, press{Do: "end", Label: "Let it end"}
	revoke, restore := press{Do: "revoke", Label: "Revoke"}, press{Do: "restore", Label: "Restore"}
	view := sessionView{
		ID: session.ID, Name: name, Rotations: session.Rotations,
		State: "in force", Live: true, Buttons: []press{expire, end, revoke},
	}
	accessEnds := session.AccessExpiresAt.Add(time.Second) // its last second is still good
	switch {
	case session.Revoked:
		view.State, view.Live, view.Buttons = "revoked", false, []press{restore}
	case session.State(now) == "expired":
		view.State, view.Live, view.Buttons = "over", false, []press{restore}
	case !now.Before(accessEnds):
		view.State, view.Live, view.Buttons = "access token expired", false, []press{restore, end, revoke}
	}
	s.changes(now, accessEnds)
	s.changes(now, session.RefreshExpiresAt)
	s.Sessions = append(s.Sessions, view)
}

// login adds an authorization to the state.
func (s *state) login(now time.Time, a hubtest.Authorization) {
	view := login{
		ID: a.ID, Device: receipt.Printable(a.DeviceLabel),
		For: receipt.Printable(a.ClientID + " in " + strings.Join(a.RequestedRoutes, ", ")), State: string(a.Status),
	}
	lapse := []press{{Do: "lapse", Label: "Let it expire"}}
	switch {
	case a.Status == hubtest.AuthorizationPending:
		view.State, view.Live, view.Page, view.Buttons = "waits for a person until "+a.ExpiresAt.Local().Format(time.TimeOnly), true, a.URL, lapse
		s.changes(now, a.ExpiresAt)
	case a.Status == hubtest.AuthorizationApproved && now.Before(a.CodeExpiresAt):
		view.State, view.Live, view.Buttons = "agreed, its code not used yet", true, lapse
		s.changes(now, a.CodeExpiresAt)
	case a.Status == hubtest.AuthorizationApproved:
		view.State = "agreed, its code ran out"
	case a.Status == hubtest.AuthorizationConsumed:
		view.State, view.Live = "logged in", true
	case a.Status == hubtest.AuthorizationDenied:
		view.State = "refused"
	}
	s.Logins = append(s.Logins, view)
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}
