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

// Correlation says where [Client.Correlate] begins: with a request, a session, or both. Today's
// servers do not write the session into audit entries, so a caller usually has to give both.
type Correlation struct {
	// RequestID is the X-Request-Id of a request to the agent; "" for none.
	// One that a server would have replaced, because it is not 1 to 64 letters,
	// digits, "-" and "_", is an invalid request.
	RequestID string
	// SessionID is the session that the request was sent for; "" to take it from the
	// audit entries.
	SessionID string
	// From and To bound the part of the audit log that is searched for the
	// request, as in [AuditQuery]. The log has no filter for requests: all of
	// that part is read.
	From, To time.Time
}

// Trail has what a server has recorded of one request: the request, its session, the tools that
// ran for the session, and their traces.
type Trail struct {
	// RequestID is the request that the caller gave.
	RequestID string
	// SessionID is the session that the caller gave, or else the one session that the
	// entries name; "" where there is neither.
	SessionID string
	// Entries are the audit entries of the request, oldest first. There are
	// several where a request id was used more than once.
	Entries []*AuditEntry
	// Receipts are all receipts of the session, oldest first, whatever request
	// they were for: a receipt does not name its request.
	Receipts []*Receipt
	// Traces are the traces that the receipts name, in that order.
	Traces []Trace

	// The four links between these, each with the evidence for it.

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

// Link is the evidence for one link of a [Trail].
type Link string

const (
	// LinkRecorded: the records show the link.
	LinkRecorded Link = "recorded"
	// LinkPartlyRecorded: some records show the link. Others do not, or not all could
	// be read. Do not present the rest as linked.
	LinkPartlyRecorded Link = "partly_recorded"
	// LinkContradicted: the records name another session than the caller gave, or more
	// than one. Find out which one is right.
	LinkContradicted Link = "contradicted"
	// LinkAbsent: all records were read and do not show the link. That does not prove
	// that there is none: look for other evidence.
	LinkAbsent Link = "absent"
	// LinkUnknown: the records that were read do not show the link, and not all could be
	// read. Ask again with a smaller window.
	LinkUnknown Link = "unknown"
	// LinkNotAsked: the link could not be searched for. Give a request id or a session.
	LinkNotAsked Link = "not_asked"
)

// Correlate collects what the server has recorded of a request and its session: see [Trail]. It
// reads the audit log with [Client.AllAuditLogs] and the receipts with [Client.AllReceipts]. It
// does not guess: a link is in the records, or the trail says that it is not. Equal times are
// not evidence of a link.
//
// An incomplete list is not an error here: the links say LinkUnknown or LinkPartlyRecorded. The
// same holds where the server may not see all records: where its log lacks the requests that
// Correlate has just made, no link is LinkAbsent. Any other error is a [*feedback.Error], without
// a trail; its Cursor belongs to the list that was being read.
//
// Reading the log of a large window takes long: limit the window, and see [WithProgress].
func (c *Client) Correlate(ctx context.Context, from Correlation, opts ...ListOption) (*Trail, error) {
	switch {
	case from.RequestID == "" && from.SessionID == "":
		return nil, inspection.Invalid("Correlation has neither RequestID nor SessionID.")
	case from.RequestID != "" && !identifier.RequestID(from.RequestID):
		return nil, inspection.Invalid("Correlation.RequestID is not 1 to 64 letters, digits, - and _: a server replaces such an id, so there is no entry of it.")
	}
	// Both queries are checked before anything is sent.
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

// seesRecords reports whether the server sees the records of this tenant in its database. It
// looks for the entry of a request that was just made, because a server whose database role may
// not read the records gives empty lists.
func (c *Client) seesRecords(ctx context.Context, settings *listSettings) (bool, error) {
	waits := &waits{ctx: ctx, settings: settings, report: func(wait time.Duration, rateLimited bool) {
		if settings.progress != nil {
			settings.progress(Progress{Wait: wait, RateLimited: rateLimited})
		}
	}}
	return c.findInLog(waits, "")
}

// found gives the link to n records of a list, which is whole or not.
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

// linkSession compares the sessions that the entries name with the one that the caller gave.
// Where the caller gave none and the entries name exactly one, it takes that.
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
