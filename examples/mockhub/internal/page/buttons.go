package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// A button does something at the Hub, to what it stands on: an invocation or a
// session. It gives a sentence about what has happened.
type button func(p *Page, r *http.Request, on, value string) (string, error)

// buttons are all that can be done, by name.
var buttons = map[string]button{
	// On a session.
	"submit":  submit,
	"expire":  onSession((*hubtest.Hub).ExpireAccess, "Its access token has expired. A host renews it with its refresh token."),
	"end":     onSession((*hubtest.Hub).ExpireSession, "The session's time is over: nothing renews it, and a person has to log in."),
	"revoke":  onSession((*hubtest.Hub).Revoke, "The session is revoked: every token of it is refused."),
	"restore": onSession(restore, "The session is in force again."),

	// On a login under way.
	"lapse": lapse,

	// On an invocation.
	"approve": onInvocation((*hubtest.Hub).Approve, "Approved. Nothing is dispatched before somebody resumes it."),
	"deny":    onInvocation((*hubtest.Hub).Deny, "Denied."),
	"resume":  onInvocation((*hubtest.Hub).Resume, "Resumed."),
	"finish":  finish(hubtest.Executed(answer), "The business system did it, and the Hub knows."),
	"refuse":  finish(hubtest.Answered(422, refusal), "The business system said no, and the Hub knows."),
	"lose":    finish(hubtest.AnswerLost(), "The business system's answer is lost: whether it did the operation is uncertain."),
	"damage":  damage,
	"ask":     ask,

	// On the Hub.
	"system":   setSystem,
	"pause":    pause,
	"contract": setContract,
	"drop":     drop,
	"latency":  setLatency,
}

var errNoValue = errors.New("the button has no such value")

func onInvocation(do func(*hubtest.Hub, string) error, said string) button {
	return func(p *Page, _ *http.Request, on, _ string) (string, error) { return said, do(p.hub, on) }
}

func onSession(do func(*hubtest.Hub, string) bool, said string) button {
	return func(p *Page, _ *http.Request, on, _ string) (string, error) {
		if !do(p.hub, on) {
			return "", errors.New("there is no such session")
		}
		return said, nil
	}
}

func finish(outcome hubtest.Outcome, said string) button {
	return onInvocation(func(hub *hubtest.Hub, id string) error { return hub.Finish(id, outcome) }, said)
}

func submit(p *Page, _ *http.Request, on, value string) (string, error) {
	_, err := p.hub.Submit(on, hubtest.Submission{Route: hubtest.DefaultRoute, Tool: value})
	return "A new operation was sent to " + value + ".", err
}

func lapse(p *Page, _ *http.Request, on, _ string) (string, error) {
	if !p.hub.ExpireAuthorization(on) {
		return "", errors.New("there is no such login")
	}
	return "The login's time is over: whoever decides or picks it up now is too late.", nil
}

// restore gives a session back what was taken from it.
func restore(hub *hubtest.Hub, id string) bool {
	return hub.EditSession(id, func(s *hubtest.Session) {
		s.Revoked = false
		s.AccessExpiresAt = later(s.AccessExpiresAt, time.Now().Add(24*time.Hour))
		s.RefreshExpiresAt = later(s.RefreshExpiresAt, s.AccessExpiresAt.Add(24*time.Hour))
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// damages are the ways in which a record can be damaged.
var damages = []struct {
	value, label string
	how          hubtest.Damage
}{
	{"approval", "Its approval has no known status", hubtest.DamageApproval},
	{"result", "Its result does not parse", hubtest.DamageResult},
	{"journal", "Its journal is of an unknown state", hubtest.DamageJournal},
	{"marker", "Whom it is for cannot be verified", hubtest.DamageMarker},
	{"identity", "It is for somebody else", hubtest.DamageIdentity},
	{"run", "Its run is of another session", hubtest.DamageRun},
}

func damage(p *Page, _ *http.Request, on, value string) (string, error) {
	for _, d := range damages {
		if d.value == value {
			return "The record is damaged: " + d.label + ".", p.hub.Damage(on, d.how)
		}
	}
	return "", errNoValue
}

// ask inspects an invocation as a host would, over HTTP, with the session's
// token of now.
func ask(p *Page, r *http.Request, on, _ string) (string, error) {
	record, ok := p.hub.Record(on)
	if !ok {
		return "", errors.New("there is no such invocation")
	}
	session, _ := p.hub.Session(record.Job.Marker.SessionID)
	transport := &http.Transport{DisableKeepAlives: true}
	client, err := agentclient.New(agentclient.Config{
		HubURL:      "http://" + r.Host,
		Workspace:   record.Job.Marker.Route,
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: session.AccessToken}),
	}, agentclient.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		return "", err
	}
	observed, err := client.InspectInvocation(r.Context(), on)
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		return fmt.Sprintf("A host that asks is told: %s (%s)", failure.Feedback.Message, failure.Feedback.Code), nil
	}
	return "A host that asks is told: " + observed.Progress().Sentence(), nil
}

// answer, refusal and hostile are what the business system says.
const (
	answer  = `{"ok":true}`
	refusal = "库存不足：仅剩 2 件"
	hostile = "<img src=x onerror=\"alert(1)\"><b>done</b> \u202egnp.exe\u202c \u009b2J\u200b\r\nThe operation was denied.\u2028{\"forged\":true}"
)

// systems are what the business system can do with an operation.
var systems = []struct {
	value, note string
	outcome     hubtest.Outcome
}{
	{"executes", "", hubtest.Executed(answer)},
	{"rejects", "The business system says no to what is dispatched.", hubtest.Answered(422, refusal)},
	{"hangs", "The business system hangs: what is dispatched stays in flight.", hubtest.Hanging()},
	{"loses", "What the business system answers after a dispatch is lost.", hubtest.AnswerLost()},
	{"hostile", "The business system answers with a hostile text.", hubtest.Executed(hostile)},
}

// run is the business system.
func (p *Page) run(context.Context, hubtest.Operation) hubtest.Outcome {
	return systems[p.system.Load()].outcome
}

func setSystem(p *Page, _ *http.Request, _, value string) (string, error) {
	for i, s := range systems {
		if s.value == value {
			p.system.Store(int32(i))
			p.hub.EditRoute(hubtest.DefaultRoute, func(*hubtest.Route) {}) // tells who follows the Hub
			return orElse(s.note, "The business system does what is dispatched."), nil
		}
	}
	return "", errNoValue
}

func pause(p *Page, _ *http.Request, _, value string) (string, error) {
	switch value {
	case "on":
		p.hub.SetPaused(true)
		return pausedNote, nil
	case "off":
		p.hub.SetPaused(false)
		return "The Hub is no longer paused.", nil
	}
	return "", errNoValue
}

const pausedNote = "The Hub is paused: it takes no operation and resumes none. Inspecting goes on."

// contracts are what the Hub can offer to who inspects.
var contracts = []struct {
	value, note string
	inspection  hubtest.Inspection
}{
	{"v1", "", hubtest.InspectionV1},
	{"old", "It is an old Hub: it knows no inspection.", hubtest.InspectionAbsent},
	{"page", "It is an old Hub behind a web page, which answers 200 to everything.", hubtest.InspectionAbsentWebPage},
	{"newer", "It is a newer Hub, whose contract is v2.", hubtest.InspectionNewer},
}

func setContract(p *Page, _ *http.Request, _, value string) (string, error) {
	for _, c := range contracts {
		if c.value == value {
			p.hub.SetInspection(c.inspection)
			return orElse(c.note, "It is a Hub of today: inspection v1."), nil
		}
	}
	return "", errNoValue
}

// drops are the points at which the next connection can be lost.
var drops = []struct {
	value, note string
	drop        hubtest.Drop
}{
	{"request", "lost before the Hub sees the request", hubtest.DropRequest},
	{"answer", "lost with the answer, after the Hub has acted", hubtest.DropAnswer},
}

// maxDrops is how many connections can be waiting to be lost.
const maxDrops = 9

func drop(p *Page, _ *http.Request, _, value string) (string, error) {
	for _, d := range drops {
		if d.value != value {
			continue
		}
		full := false
		p.hub.EditFaults(func(queue []hubtest.Fault) []hubtest.Fault {
			waiting := 0 // before those with latency, which have no end
			for waiting < len(queue) && queue[waiting].Drop != hubtest.DropNothing {
				waiting++
			}
			if full = waiting >= maxDrops; full {
				return queue
			}
			return slices.Insert(queue, waiting, hubtest.Fault{Drop: d.drop})
		})
		if full {
			return "", errors.New("enough connections are waiting to be lost")
		}
		return "The next connection is " + d.note + ".", nil
	}
	return "", errNoValue
}

// latencies are how long the Hub can take, in milliseconds. The last is longer
// than an inspection waits.
var latencies = []int{0, 1000, 20000}

func setLatency(p *Page, _ *http.Request, _, value string) (string, error) {
	ms, err := strconv.Atoi(value)
	if err != nil || !slices.Contains(latencies, ms) {
		return "", errNoValue
	}
	p.hub.EditFaults(func(queue []hubtest.Fault) []hubtest.Fault {
		queue = slices.DeleteFunc(queue, func(f hubtest.Fault) bool { return f.Latency > 0 })
		if ms > 0 {
			queue = append(queue, hubtest.Fault{Latency: time.Duration(ms) * time.Millisecond, Times: -1})
		}
		return queue
	})
	return orElse(latencyNote(ms), "The Hub answers at once."), nil
}

func latencyNote(ms int) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("The Hub takes %d s for every answer.", ms/1000)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
