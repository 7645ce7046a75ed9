package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// demonstrate plays the situations, asks about each, and proves that asking
// changed nothing.
func demonstrate(ctx context.Context, o options, out *output, stderr io.Writer) error {
	p := &play{ctx: ctx, store: registry.NewMemory()}
	defer p.close()
	transport, err := host.New(p.store, agentclient.WithTimeout(o.timeout))
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	p.transport = transport
	p.act()
	if p.err != nil {
		return p.err
	}

	if !o.json {
		out.paragraph(fmt.Sprintf("How far did they get? %d operations at mock Hubs, each asked about once.", len(p.questions)))
	}
	before := p.snapshots()
	if err := askAll(ctx, p.questions, out); err != nil {
		return err
	}
	after := p.snapshots()

	// The proof is no answer: among lines of JSON it has no place.
	proof := io.Writer(out)
	if o.json {
		proof = stderr
	}
	unchanged := p.prove(before, after, proof, o.columns)
	out.failed = 0 // some questions have no answer on purpose
	return cmp.Or(
		errors.Join(surprise(out.surprises), unchanged),
		out.Flush(),
	)
}

func surprise(surprises []string) error {
	if len(surprises) == 0 {
		return nil
	}
	return errors.New("not as it was played: " + strings.Join(surprises, "; "))
}

// A play is some Hubs, the connections of a host to them, and the operations
// that the host has sent.
type play struct {
	ctx       context.Context
	store     *registry.Memory
	transport *host.Transport
	hubs      []*hubtest.Hub
	group     string
	questions []question
	err       error // the first one; nothing more is played after it
}

// A place is a Hub, and a host's connection to it with its login.
type place struct {
	hub     *hubtest.Hub
	session hubtest.Session
	key     string
}

// act plays everything.
func (p *play) act() {
	main := p.hub()

	p.group = "THE HUB KNOWS"
	here := p.login(main)
	p.send(here, situation.Read, receipt.ProgressExecuted)
	p.send(here, situation.Write, receipt.ProgressExecuted)
	p.send(here, situation.Awaiting, receipt.ProgressAwaitingApproval)
	p.send(here, situation.Approved, receipt.ProgressApprovedNotDispatched)
	p.send(here, situation.Denied, receipt.ProgressDenied)
	p.send(here, situation.Resumed, receipt.ProgressExecuted)
	p.send(here, situation.BusinessRejected, receipt.ProgressBusinessRejected)
	p.send(here, situation.RateLimited, receipt.ProgressRejectedBeforeDispatch)
	p.send(here, situation.HostileText, receipt.ProgressExecuted)

	p.group = "THE HUB IS NOT CERTAIN"
	p.send(here, situation.InFlight, receipt.ProgressInFlight)
	p.send(here, situation.AnswerLost, receipt.ProgressUnresolved)
	p.send(here, situation.ResultDamaged, receipt.ProgressUnresolved)
	p.send(here, situation.NoEvidence, receipt.ProgressNoEvidence)
	p.send(here, situation.RecordDamaged, feedback.CodeInvocationRecordInvalid)
	p.send(here, situation.NotFound, feedback.CodeInvocationNotFound)

	p.group = "SESSIONS, CONNECTIONS, VERSIONS"
	expired := p.login(main)
	p.send(expired, situation.Write.As("expired", "The access token has expired; asking renews it, as a login allows."), receipt.ProgressExecuted)
	main.ExpireAccess(expired.session.ID)

	paused := p.login(p.hub())
	p.send(paused, situation.Approved.As("paused", "Approved, and now the whole Hub is paused. That stops operations, not questions."), receipt.ProgressApprovedNotDispatched)
	paused.hub.SetPaused(true)

	revoked := p.login(main)
	p.send(revoked, situation.Write.As("revoked", "The session was revoked. No other session is asked in its place."), feedback.CodeAgentAuthorizationUnavailable)
	main.Revoke(revoked.session.ID)

	rebound := p.login(main)
	p.send(rebound, situation.Write.As("rebound", "Somebody logged in anew through the same connection: that is another session."), feedback.CodeAgentBindingChanged)
	rebound.session = main.Login(hubtest.Grant{})
	p.save(rebound)

	withdrawn := p.login(main)
	p.send(withdrawn, situation.Write.As("withdrawn", "The session may not use this tool any more."), feedback.CodeCapabilityChanged)
	main.EditSession(withdrawn.session.ID, func(s *hubtest.Session) { s.Tools = []string{hubtest.ReadTool} })

	older := p.login(p.hub())
	p.send(older, situation.Write.As("older-hub", "An older Hub, which has no inspection. Nothing else is tried."), feedback.CodeAgentSchemaUnsupported)
	older.hub.SetInspection(hubtest.InspectionAbsent)

	busy := p.login(p.hub())
	p.send(busy, situation.Write.As("gateway", "A gateway in front of the Hub says 503, and to come back in a minute."), feedback.CodeAgentTransportUnavailable)
	busy.hub.Inject(hubtest.Fault{
		Times:  -1,
		Status: http.StatusServiceUnavailable,
		Header: http.Header{"Retry-After": {"60"}, "Content-Type": {"text/plain"}},
		Body:   []byte("busy"),
	})
}

func (p *play) close() {
	for _, hub := range p.hubs {
		hub.Close()
	}
}

func (p *play) hub() *hubtest.Server {
	server := hubtest.New().Start()
	p.hubs = append(p.hubs, server.Hub)
	return server
}

// login gives the host a connection to a Hub and a login in it, as a login
// done elsewhere would.
func (p *play) login(server *hubtest.Server) place {
	if p.err != nil {
		return place{hub: server.Hub}
	}
	// An instance of its own, because one Hub has several connections here.
	connection, err := p.store.Register(p.ctx, registry.Descriptor{
		HubURL:      server.URL,
		ClientAppID: hubtest.DefaultClient,
		Workspace:   hubtest.DefaultRoute,
	}, registry.WithInstance(registry.NewInstanceID()))
	p.err = err
	at := place{hub: server.Hub, session: server.Login(hubtest.Grant{}), key: connection.Key}
	p.save(at)
	return at
}

func (p *play) save(at place) {
	if p.err != nil {
		return
	}
	connection, err := p.store.Connection(p.ctx, at.key)
	if err == nil {
		err = p.store.SaveCredentials(p.ctx, at.key, at.session.Credentials(connection.HubURL, connection.Workspace))
	}
	p.err = err
}

// send does what a host does: it captures the original, keeps it, sends the
// operation, and can ask about it later. Want is a progress or a code.
func (p *play) send(at place, s situation.Situation, want any) {
	if p.err != nil {
		return
	}
	original, err := p.transport.Capture(p.ctx, at.key, s.InvocationID())
	if err != nil {
		p.err = err
		return
	}
	original.Tool = s.Tool
	original.AgentRunID = s.AgentRunID()
	p.err = s.Play(at.hub, at.session.ID)
	p.questions = append(p.questions, question{
		id: original.InvocationID,
		ask: func(ctx context.Context) host.Observation {
			observed, err := p.transport.InspectInvocation(ctx, original)
			return host.Observation{Original: original, Receipt: observed, Err: err}
		},
		group: p.group, name: s.Name, story: s.Story,
		want: fmt.Sprint(want),
	})
}

// snapshots gives all that the Hubs have stored, and what reached a business
// system.
func (p *play) snapshots() (all []hubtest.Snapshot) {
	for _, hub := range p.hubs {
		all = append(all, hub.Snapshot())
	}
	return all
}

// prove compares the Hubs before and after the questions.
func (p *play) prove(before, after []hubtest.Snapshot, w io.Writer, columns int) error {
	var performed [2]int
	stored, same := "equal before and after", true
	for i := range before {
		performed[0] += before[i].BusinessOperations
		performed[1] += after[i].BusinessOperations
		if before[i] != after[i] {
			stored, same = "NOT equal before and after", false
		}
	}
	var sent hubtest.Counts
	for _, hub := range p.hubs {
		c := hub.Requests()
		sent.Capabilities += c.Capabilities
		sent.Receipt += c.Receipt
		sent.Refresh += c.Refresh
		sent.Submit += c.Submit
		sent.Resume += c.Resume
		sent.Other += c.Other
	}
	changed := performed[0] != performed[1] || !same || sent.Submit+sent.Resume+sent.Other != 0
	verdict := "ASKING CHANGED NOTHING"
	if changed {
		verdict = "ASKING CHANGED SOMETHING"
	}
	fmt.Fprintf(w, "\n%s\n\n", verdict)
	for _, line := range []struct{ label, text string }{
		{"business operations performed", fmt.Sprintf("%d before the questions, %d after", performed[0], performed[1])},
		{"what the Hubs have stored", stored},
		{"what the questions were", fmt.Sprintf("%d negotiations, %d receipts, %d refreshes", sent.Capabilities, sent.Receipt, sent.Refresh)},
		{"what they were not", fmt.Sprintf("%d submits, %d resumes, %d other requests", sent.Submit, sent.Resume, sent.Other)},
	} {
		fmt.Fprint(w, screen.Labelled("  "+line.label, 36, line.text, columns))
	}
	if changed {
		return errors.New("asking changed something")
	}
	return nil
}
