package hubtest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A RequestKind tells the requests to a Hub apart, by method and path.
type RequestKind int

const (
	// AnyRequest stands for every kind in a [Fault].
	AnyRequest RequestKind = iota
	// CapabilitiesRequest is the negotiation of an inspection.
	CapabilitiesRequest
	// ReceiptRequest reads the receipt of an invocation.
	ReceiptRequest
	// RefreshRequest exchanges a refresh token. Requests to the token endpoint
	// that name no grant, or a wrong one, count as this kind too.
	RefreshRequest
	// SubmitRequest hands an operation to the Hub.
	SubmitRequest
	// ResumeRequest continues an operation.
	ResumeRequest
	// OtherRequest is everything else.
	OtherRequest
	// StartRequest asks for an authorization: a login begins.
	StartRequest
	// ExchangeRequest exchanges the code of an authorization for a session.
	ExchangeRequest
	// SessionRequest asks whose session an access token is of.
	SessionRequest
	// RevokeRequest ends a session on behalf of the client app: a logout.
	RevokeRequest
	// ConsentRequest is a call of the business system about an authorization or
	// a session.
	ConsentRequest
)

// String returns the kind in one word.
func (k RequestKind) String() string {
	names := [...]string{"any", "capabilities", "receipt", "refresh", "submit", "resume", "other", "start", "exchange", "session", "revoke", "consent"}
	if k < 0 || int(k) >= len(names) {
		return "invalid"
	}
	return names[k]
}

// Counts are requests by kind. They compare with ==.
type Counts struct {
	// Capabilities counts requests of the kind [CapabilitiesRequest], and so on
	// for each field.
	Capabilities int
	// Receipt counts [ReceiptRequest].
	Receipt int
	// Refresh counts [RefreshRequest].
	Refresh int
	// Submit counts [SubmitRequest].
	Submit int
	// Resume counts [ResumeRequest].
	Resume int
	// Start counts [StartRequest].
	Start int
	// Exchange counts [ExchangeRequest].
	Exchange int
	// Session counts [SessionRequest].
	Session int
	// Revoke counts [RevokeRequest].
	Revoke int
	// Consent counts [ConsentRequest].
	Consent int
	// Other counts [OtherRequest].
	Other int
}

// Total is the number of all requests.
func (c Counts) Total() int {
	total := 0
	for k := CapabilitiesRequest; k <= ConsentRequest; k++ {
		total += *c.of(k)
	}
	return total
}

func (c *Counts) of(k RequestKind) *int {
	switch k {
	case CapabilitiesRequest:
		return &c.Capabilities
	case ReceiptRequest:
		return &c.Receipt
	case RefreshRequest:
		return &c.Refresh
	case SubmitRequest:
		return &c.Submit
	case ResumeRequest:
		return &c.Resume
	case StartRequest:
		return &c.Start
	case ExchangeRequest:
		return &c.Exchange
	case SessionRequest:
		return &c.Session
	case RevokeRequest:
		return &c.Revoke
	case ConsentRequest:
		return &c.Consent
	}
	return &c.Other
}

func (c *Counts) add(k RequestKind) { *c.of(k)++ }

// Requests counts the requests that arrived over HTTP, including those that a fault kept from
// the Hub. A call of a method such as [Hub.Submit] is not a request.
func (h *Hub) Requests() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// BusinessOperations counts the operations that were handed to a business system, whatever
// their outcome was.
func (h *Hub) BusinessOperations() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.business
}

// A Snapshot is the business state of a Hub. Two of them are equal by == when nothing has
// happened between them that an inspection must not cause. It does not contain sessions,
// tokens and requests.
type Snapshot struct {
	// Invocations counts the stored records.
	Invocations int
	// Approvals counts those for which an approval was asked for.
	Approvals int
	// Journals counts those that have a journal.
	Journals int
	// BusinessOperations counts what was handed to a business system.
	BusinessOperations int
	// State has one line for each invocation, with everything stored about it.
	State string
}

// Snapshot returns the business state as it is now.
func (h *Hub) Snapshot() Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Snapshot{Invocations: len(h.records), BusinessOperations: h.business}
	var state strings.Builder
	for _, id := range slices.Sorted(maps.Keys(h.records)) {
		r := h.records[id]
		if r.Approval != nil {
			s.Approvals++
		}
		if r.Journal != nil {
			s.Journals++
		}
		state.Write(encode(printable(*r)))
		state.WriteByte('\n')
	}
	s.State = state.String()
	return s
}

// printable gives a record with its raw JSON as strings, because stored JSON may be damaged
// and could not be marshalled.
func printable(r Record) any {
	type line struct {
		Record
		Arguments, Result, Response string
	}
	l := line{Record: r.clone(), Arguments: string(r.Job.Arguments), Result: string(r.Job.Result)}
	l.Job.Arguments, l.Job.Result = nil, nil
	if l.Journal != nil {
		l.Response = string(l.Journal.Response)
		l.Journal.Response = nil
	}
	return l
}

// A LogEntry is one request that a Hub answered or lost.
type LogEntry struct {
	// N is its number, from 1; the log never gives one twice.
	N int
	// Time at which the answer was decided, by the Hub's clock.
	Time time.Time
	// Kind of the request.
	Kind RequestKind
	// Method of HTTP.
	Method string
	// Path without the query, and without any token of the Hub.
	Path string
	// Status of the answer; 0: none was given.
	Status int
	// SessionID of the authenticated session; empty where there is none.
	SessionID string
}

const maxLog = 500

// Log returns the last 500 requests, in the order in which their answers were
// decided. A client that has an answer finds its request here.
func (h *Hub) Log() []LogEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log[max(0, len(h.log)-maxLog):])
}

// record appends to the log.
func (h *Hub) record(e LogEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == OtherRequest {
		for _, s := range h.sessions {
			for token := range s.issued {
				e.Path = strings.ReplaceAll(e.Path, token, "…")
			}
		}
		e.Path = e.Path[:min(len(e.Path), 256)]
	}
	if len(h.log) == 2*maxLog {
		h.log = slices.Delete(h.log, 0, maxLog)
	}
	h.logged++
	e.N = h.logged
	h.log = append(h.log, e)
	h.touch()
}
