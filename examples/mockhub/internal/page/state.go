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

// look gives the state as JSON, made anew where the Hub has changed.
func (p *Page) look() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if version := p.hub.Version(); p.state == nil || version != p.version {
		p.version = version
		p.state, _ = json.Marshal(p.observe()) // strings, numbers and lists of them
	}
	return p.state
}

func (p *Page) observe() state {
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
	for _, session := range p.sessions {
		names[session.ID] = receipt.Printable(session.Name)
		s.Sessions = append(s.Sessions, p.session(session))
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

func (p *Page) session(shown Session) sessionView {
	s, _ := p.hub.Session(shown.ID)
	now := time.Now()
	view := sessionView{
		ID: shown.ID, Name: receipt.Printable(shown.Name), Rotations: s.Rotations,
		State: "in force", Live: true,
		Buttons: []press{{Do: "expire", Label: "Expire its token"}, {Do: "revoke", Label: "Revoke"}},
	}
	restore := press{Do: "restore", Label: "Restore"}
	switch {
	case s.Revoked:
		view.State, view.Live, view.Buttons = "revoked", false, []press{restore}
	case !now.Before(s.AccessExpiresAt):
		view.State, view.Live, view.Buttons = "access token expired", false, []press{restore, {Do: "revoke", Label: "Revoke"}}
	}
	return view
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}
