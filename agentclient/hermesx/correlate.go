package hermesx

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
)

// Correlation says what [Client.Correlate] starts from: a request, a session,
// or both. Audit entries do not name their session today, so both is what a
// caller usually has to give.
type Correlation struct {
	// RequestID is the X-Request-Id of a request to the agent; "" for none.
	// One that a server would have replaced, because it is not 1 to 64 letters,
	// digits, "-" and "_", is an invalid request.
	RequestID string
	// SessionID is the session that the request was sent for; "" to go by what
	// the audit entries say.
	SessionID string
	// From and To bound the part of the audit log that is searched for the
	// request, as in [AuditQuery]. The log has no filter for requests: all of
	// that part is read.
	From, To time.Time
}

// Trail is what a server's records have of one request: the request, its
// session, the tools that ran for the session, and their traces.
type Trail struct {
	// RequestID is the one that was given.
	RequestID string
	// SessionID is the one that was given, or the one session that the entries
	// name; "" where neither is there.
	SessionID string
	// Entries are the audit entries of the request, oldest first. There are
	// several where a request id was used more than once.
	Entries []*AuditEntry
	// Receipts are all receipts of the session, oldest first, whatever request
	// they were for: a receipt does not name its request.
	Receipts []*Receipt
	// Traces are the traces that the receipts name, in that order.
	Traces []Trace

	// The links between these, each with the evidence that there is for it.

	// Request is the link from the request id to its entries.
	Request Link
	// Session is the link from the entries to the session.
	Session Link
	// Execution is the link from the session to its receipts.
	Execution Link
	// Telemetry is the link from the receipts to traces.
	Telemetry Link
}

// Trace is a distributed trace and the receipts that name it.
type Trace struct {
	// ID is the trace's, as the receipts have it. It is not empty, and untrusted.
	ID string
	// Receipts are those that name it, oldest first; never none.
	Receipts []*Receipt
}

// Link says what evidence there is for one link of a [Trail].
type Link string

const (
	// LinkRecorded: the records show it.
	LinkRecorded Link = "recorded"
	// LinkPartlyRecorded: some of the records show it, others do not, or could
	// not be read to the end. Do not present the rest as linked.
	LinkPartlyRecorded Link = "partly_recorded"
	// LinkContradicted: the records name another session than the one that was
	// given, or more than one. Find out which is right.
	LinkContradicted Link = "contradicted"
	// LinkAbsent: the records were read and do not show it. That is no proof
	// that it is not so: look for other evidence.
	LinkAbsent Link = "absent"
	// LinkUnknown: what was read does not show it, and not all could be read.
	// Ask again, for less.
	LinkUnknown Link = "unknown"
	// LinkNotAsked: there was nothing to look for it with. Give a request id or
	// a session.
	LinkNotAsked Link = "not_asked"
)

// Correlate collects what the server's records have of a request and of its
// session: see [Trail]. It reads the audit log with [Client.AllAuditLogs] and
// the receipts with [Client.AllReceipts], and guesses nothing: a link is
// recorded, or the trail says that it is not. Times are no evidence of a link.
//
// A list that is not whole shows in the links, and so do records that a server
// may not be able to see: where its log lacks the requests that Correlate has
// just made, no link is absent. Any other error is a [*feedback.Error]; its
// Cursor is one of the list that was being read, and no part of a trail is given
// with it.
//
// The whole log of a window may take long to read: see [WithProgress], and
// bound the window.
func (c *Client) Correlate(ctx context.Context, from Correlation, opts ...ListOption) (*Trail, error) {
	switch {
	case from.RequestID == "" && from.SessionID == "":
		return nil, inspection.Invalid("Correlation has neither RequestID nor SessionID.")
	case from.RequestID != "" && !identifier.RequestID(from.RequestID):
		return nil, inspection.Invalid("Correlation.RequestID is not 1 to 64 letters, digits, - and _: a server replaces such an id, so there is no entry of it.")
	}
	// What is wrong with either query is said before anything is sent.
	window := AuditQuery{From: from.From, To: from.To}
	if _, invalid := window.encode(); invalid != nil {
		return nil, invalid
	}
	if _, invalid := (ReceiptQuery{SessionID: from.SessionID}).encode(); invalid != nil {
		return nil, invalid
	}

	settings, err := apply(opts)
	if err != nil {
		return nil, err
	}

	trail := &Trail{RequestID: from.RequestID, SessionID: from.SessionID, Request: LinkNotAsked, Execution: LinkNotAsked}
	if trail.RequestID != "" {
		whole := true
		for entry, err := range c.AllAuditLogs(ctx, window, opts...) {
			switch {
			case errors.Is(err, ErrIncomplete):
				whole = false
			case err != nil:
				return nil, err
			case entry.RequestID == trail.RequestID:
				trail.Entries = append(trail.Entries, entry)
			}
		}
		trail.Request = found(len(trail.Entries), whole)
	}
	trail.linkSession()
	visible := trail.Request != LinkUnknown && trail.Request != LinkNotAsked
	if trail.SessionID != "" {
		whole := true
		for receipt, err := range c.AllReceipts(ctx, ReceiptQuery{SessionID: trail.SessionID}, opts...) {
			switch {
			case errors.Is(err, ErrIncomplete):
				whole = false
			case err != nil:
				return nil, err
			default:
				trail.Receipts = append(trail.Receipts, receipt)
			}
		}
		if len(trail.Receipts) == 0 && whole && !visible {
			if whole, err = c.seesRecords(ctx, settings); err != nil {
				return nil, err
			}
		}
		trail.Execution = found(len(trail.Receipts), whole)
	}
	trail.sort()
	trail.linkTraces()
	return trail, nil
}

// seesRecords reports whether the server sees what its database has of this
// tenant: the entry of a request that was just made. A database role without the
// right to it reads empty lists.
func (c *Client) seesRecords(ctx context.Context, settings *listSettings) (bool, error) {
	waits := &waits{ctx: ctx, settings: settings, report: func(wait time.Duration, rateLimited bool) {
		if settings.progress != nil {
			settings.progress(Progress{Wait: wait, RateLimited: rateLimited})
		}
	}}
	return c.findInLog(waits, "")
}

// found is the link to some records.
func found(n int, whole bool) Link {
	switch {
	case n > 0 && whole:
		return LinkRecorded
	case n > 0:
		return LinkPartlyRecorded
	case whole:
		return LinkAbsent
	default:
		return LinkUnknown
	}
}

// linkSession goes by what the entries say of their session. Where none was
// given it takes the one that they name, if it is one.
func (t *Trail) linkSession() {
	if len(t.Entries) == 0 {
		t.Session = t.Request
		return
	}
	silent := 0
	var named []string
	for _, entry := range t.Entries {
		switch id := entry.SessionID; {
		case id == "":
			silent++
		case !slices.Contains(named, id):
			named = append(named, id)
		}
	}
	switch {
	case len(named) == 0:
		t.Session = LinkAbsent
	case len(named) > 1 || t.SessionID != "" && t.SessionID != named[0]:
		t.Session = LinkContradicted
	default:
		t.SessionID = named[0]
		t.Session = LinkRecorded
		if silent > 0 || t.Request != LinkRecorded {
			t.Session = LinkPartlyRecorded
		}
	}
}

func (t *Trail) sort() {
	slices.SortFunc(t.Entries, func(a, b *AuditEntry) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(t.Receipts, func(a, b *Receipt) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// linkTraces groups the receipts by the trace that they name.
func (t *Trail) linkTraces() {
	silent := 0
	for _, receipt := range t.Receipts {
		if receipt.TraceID == "" {
			silent++
			continue
		}
		at := slices.IndexFunc(t.Traces, func(trace Trace) bool { return trace.ID == receipt.TraceID })
		if at < 0 {
			at = len(t.Traces)
			t.Traces = append(t.Traces, Trace{ID: receipt.TraceID})
		}
		t.Traces[at].Receipts = append(t.Traces[at].Receipts, receipt)
	}
	switch {
	case len(t.Receipts) == 0:
		t.Telemetry = t.Execution
	case len(t.Traces) == 0:
		t.Telemetry = LinkAbsent
	case silent > 0 || t.Execution != LinkRecorded:
		t.Telemetry = LinkPartlyRecorded
	default:
		t.Telemetry = LinkRecorded
	}
}
