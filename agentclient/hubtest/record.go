package hubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// A Record is everything that the Hub stores about one invocation, as it lies
// in its tables. Receipts are computed from it and from nothing else.
//
// The methods that move an invocation along write well-formed records. With
// [Hub.Store] and [Hub.EditRecord] a test can also put what only a damaged or
// a foreign database holds, and see what a host makes of it.
type Record struct {
	// InvocationID is 64 hexadecimal digits; never empty.
	InvocationID string
	// Job is the Hub's own note of the invocation.
	Job Job
	// Approval that was asked for; nil: none ever was.
	Approval *Approval
	// Journal of the dispatch; nil: none, as for every tool that only reads.
	Journal *Journal
	// Run is the runtime row of the agent's turn; nil: it is gone, which is no
	// fault.
	Run *Run
}

// A Job is the Hub's own note of an invocation.
type Job struct {
	// ID numbers the jobs of this mock, from 1. No receipt depends on it.
	ID int64
	// Status is where the job stands in the Hub's queue. No receipt depends on it.
	Status JobStatus
	// Marker binds the job to whom it was made for.
	Marker Marker
	// Dispatched says whether an attempt may have reached the business system.
	Dispatched Dispatched
	// Arguments are what the operation was submitted with; nil for none.
	Arguments json.RawMessage
	// Result is the stored result as JSON. One that is not a result of this
	// invocation shows as null in a receipt.
	Result json.RawMessage
	// TaskRefusal is the code with which the task control refuses access, for
	// instance TASK_REQUIRED; empty when it does not.
	TaskRefusal string
}

// A JobStatus is where a job stands in the Hub's queue.
type JobStatus string

// The statuses that the Hub gives to a job.
const (
	// JobRunning is being worked on.
	JobRunning JobStatus = "running"
	// JobWaiting waits for an approval.
	JobWaiting JobStatus = "waiting"
	// JobFinished has its result.
	JobFinished JobStatus = "finished"
)

// Dispatched is a job's note of its dispatch.
type Dispatched int

const (
	// DispatchNo: no attempt was made.
	DispatchNo Dispatched = iota
	// DispatchYes: an attempt may have reached the business system.
	DispatchYes
	// DispatchUnrecorded: the job says nothing about it.
	DispatchUnrecorded
)

// A Marker binds a job to the session, client and person it was made for. One
// with an id, a route or a tool that is none binds nothing: the invocation is
// not found.
type Marker struct {
	// Damaged markers bind nothing: the invocation is not found.
	Damaged bool
	// SessionID and ClientID of the login that submitted it.
	SessionID, ClientID string
	// Principal is the account, of this Tenant; an empty tenant is none.
	Principal, Tenant string
	// OnBehalfOf says for whom the session acts; an empty one binds nothing.
	OnBehalfOf string
	// Route and Tool of the operation.
	Route, Tool string
	// AgentRunID is the agent's turn that submitted it.
	AgentRunID string
	// Thread of the conversation; empty for none.
	Thread string
}

// An Approval is the request for, and the answer of, a person.
type Approval struct {
	// ID is a number from 1 to 2^53-1; another one makes the record invalid:
	// 503 invocation_record_invalid.
	ID int64
	// Status is one of the Approval constants; another one makes the record
	// invalid, as for ID.
	Status ApprovalStatus
}

// An ApprovalStatus is what a person has said so far.
type ApprovalStatus string

// The statuses of an approval.
const (
	// ApprovalPending waits for the person.
	ApprovalPending ApprovalStatus = "pending"
	// ApprovalApproved is a yes.
	ApprovalApproved ApprovalStatus = "approved"
	// ApprovalDenied is a no.
	ApprovalDenied ApprovalStatus = "denied"
)

// A Journal is the evidence of a dispatch, kept for tools that write and are not
// idempotent.
type Journal struct {
	// State is one of the Journal constants. A word that is none of them reads
	// as uncertain.
	State JournalState
	// Response is what the business system answered, as JSON:
	// {"ok":true,"status":200,"text":"…"}. It counts when State is completed; a
	// text that is lost reads as an empty one.
	Response json.RawMessage
}

// A JournalState is how far the evidence of a dispatch goes.
type JournalState string

// The states of a journal.
const (
	// JournalDispatching: the operation is on its way.
	JournalDispatching JournalState = "dispatching"
	// JournalResponseRecorded: an answer was noted and not completed yet.
	JournalResponseRecorded JournalState = "response_recorded"
	// JournalCompleted: the answer is known.
	JournalCompleted JournalState = "completed"
	// JournalUncertain: no answer came back.
	JournalUncertain JournalState = "uncertain"
	// JournalEvidenceDegraded: the evidence of an answer could not be kept.
	JournalEvidenceDegraded JournalState = "evidence_degraded"
	// JournalUnknown is the journal of another store of the Hub, which does not
	// say how far it got.
	JournalUnknown JournalState = "unknown"
)

// A Run is the runtime row of the agent's turn that made the invocation. One of
// another session, client, route or thread than the job is a conflict.
type Run struct {
	// SessionID and ClientID of the login.
	SessionID, ClientID string
	// Route and Thread of the turn; an empty thread is none.
	Route, Thread string
}

func (r Record) clone() Record {
	r.Job.Arguments = bytes.Clone(r.Job.Arguments)
	r.Job.Result = bytes.Clone(r.Job.Result)
	if r.Approval != nil {
		r.Approval = new(*r.Approval)
	}
	if r.Journal != nil {
		r.Journal = new(*r.Journal)
		r.Journal.Response = bytes.Clone(r.Journal.Response)
	}
	if r.Run != nil {
		r.Run = new(*r.Run)
	}
	return r
}

// Store puts a record as it stands, over one of the same invocation id. The
// next approval gets an id above those stored.
func (h *Hub) Store(r Record) {
	h.change(func() {
		h.records[r.InvocationID] = new(r.clone())
		if r.Approval != nil {
			h.approvals = max(h.approvals, r.Approval.ID)
		}
	})
}

// Record returns what the Hub stores about an invocation.
func (h *Hub) Record(invocationID string) (Record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.records[invocationID]
	if r == nil {
		return Record{}, false
	}
	return r.clone(), true
}

// Records returns what the Hub stores, sorted by invocation id.
func (h *Hub) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Record, 0, len(h.records))
	for _, id := range slices.Sorted(maps.Keys(h.records)) {
		all = append(all, h.records[id].clone())
	}
	return all
}

// EditRecord lets edit change what the Hub stores about an invocation. The id
// stays. Edit must not call the Hub.
func (h *Hub) EditRecord(invocationID string, edit func(*Record)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	stored, err := h.find(invocationID)
	if err != nil {
		return err
	}
	r := stored.clone()
	edit(&r)
	r.InvocationID = invocationID
	*stored = r.clone()
	h.touch()
	return nil
}

// RemoveRecord makes the Hub forget an invocation.
func (h *Hub) RemoveRecord(invocationID string) {
	h.change(func() { delete(h.records, invocationID) })
}

// Damage names a way in which a stored invocation can be damaged.
type Damage int

const (
	// DamageMarker: whom it was made for cannot be verified; 404 invocation_not_found.
	DamageMarker Damage = iota
	// DamageJob: the tool that the job names is none; 404 invocation_not_found.
	DamageJob
	// DamageResult: the stored result no longer parses; a receipt with result null,
	// unless a journal tells the result.
	DamageResult
	// DamageJournal: the store of the journal does not say how far it got; a
	// receipt with journal and dispatch unknown.
	DamageJournal
	// DamageRun: the runtime row belongs to another session; 409 agent_run_conflict.
	DamageRun
	// DamageIdentity: it was made for another principal; 409 invocation_conflict.
	DamageIdentity
	// DamageApproval: the answer of the person is no word that the Hub knows; 503
	// invocation_record_invalid.
	DamageApproval
)

// Damage damages the record of an invocation.
func (h *Hub) Damage(invocationID string, how Damage) error {
	return h.EditRecord(invocationID, func(r *Record) {
		switch how {
		case DamageMarker:
			r.Job.Marker.Damaged = true
		case DamageJob:
			r.Job.Marker.Tool = "-"
		case DamageResult:
			r.Job.Result = json.RawMessage(`{"schema_version":"damaged"}`)
		case DamageJournal:
			r.Journal = &Journal{State: JournalUnknown}
		case DamageApproval:
			r.Approval = &Approval{ID: 1, Status: "damaged"}
		case DamageRun:
			r.Run = &Run{SessionID: randomUUID(), ClientID: r.Job.Marker.ClientID, Route: r.Job.Marker.Route, Thread: r.Job.Marker.Thread}
		case DamageIdentity:
			r.Job.Marker.Principal += "-other"
		}
	})
}

// find returns the record of an invocation. The caller holds the lock.
func (h *Hub) find(invocationID string) (*Record, error) {
	r := h.records[invocationID]
	if r == nil {
		return nil, fmt.Errorf("hubtest: no invocation %.64q", invocationID)
	}
	return r, nil
}
