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
	// RefreshRequest exchanges a refresh token.
	RefreshRequest
	// SubmitRequest hands an operation to the Hub.
	SubmitRequest
	// ResumeRequest continues an operation.
	ResumeRequest
	// OtherRequest is everything else.
	OtherRequest
)

// String returns the kind in one word.
func (k RequestKind) String() string {
	names := [...]string{"any", "capabilities", "receipt", "refresh", "submit", "resume", "other"}
	if k < 0 || int(k) >= len(names) {
		return "invalid"
	}
	return names[k]
}

// Counts are requests by kind. They compare with ==.
type Counts struct {
	Capabilities, Receipt, Refresh, Submit, Resume, Other int
}

// Total is the number of all requests.
func (c Counts) Total() int {
	return c.Capabilities + c.Receipt + c.Refresh + c.Submit + c.Resume + c.Other
}

func (c *Counts) add(k RequestKind) {
	switch k {
	case CapabilitiesRequest:
		c.Capabilities++
	case ReceiptRequest:
		c.Receipt++
	case RefreshRequest:
		c.Refresh++
	case SubmitRequest:
		c.Submit++
	case ResumeRequest:
		c.Resume++
	default:
		c.Other++
	}
}

// Requests counts the requests that arrived over HTTP, also those that a fault
// kept from the Hub. Methods such as [Hub.Submit] are not requests.
func (h *Hub) Requests() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// BusinessOperations counts the operations that were handed to a business
// system, whatever became of them.
func (h *Hub) BusinessOperations() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.business
}

// A Snapshot is the business state of a Hub. Two of them are equal under ==
// when nothing happened between them that inspecting must not do. Sessions,
// tokens and requests are no part of it.
type Snapshot struct {
	Invocations, Approvals, Journals, BusinessOperations int
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

// printable is a record whose raw JSON is strings: stored JSON may be damaged.
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
	N      int // its number, from 1; the log never gives one twice
	Time   time.Time
	Kind   RequestKind
	Method string
	Path   string // without the query, and without any token of the Hub
	Status int    // 0: no answer was given
	// SessionID of the authenticated session, if any.
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
