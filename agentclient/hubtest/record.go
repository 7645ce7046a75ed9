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
	InvocationID string
	Job          Job
	Approval     *Approval // nil: none was ever asked for
	Journal      *Journal  // nil: none, as for every tool that only reads
	Run          *Run      // nil: the runtime row is gone, which is no fault
}

// A Job is the Hub's own note of an invocation.
type Job struct {
	// ID is a number from 1; another one makes the record invalid.
	ID int64
	// Status is one of the Job constants; another one makes the record invalid.
	Status JobStatus
	// Marker binds the job to whom it was made for.
	Marker Marker
	// Dispatched says whether an attempt may have reached the business system.
	Dispatched Dispatched
	// Arguments are what the operation was submitted with.
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

// The statuses that a valid job can have.
const (
	JobRunning  JobStatus = "running"
	JobWaiting  JobStatus = "waiting"
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

// A Marker binds a job to the session, client and person it was made for.
type Marker struct {
	// Damaged markers bind nothing: the invocation is not found.
	Damaged                       bool
	SessionID, ClientID           string
	Principal, Tenant, OnBehalfOf string
	Route, Tool                   string
	AgentRunID, Thread            string
}

// An Approval is the request for, and the answer of, a person.
type Approval struct {
	ID     int64
	Status ApprovalStatus
}

// An ApprovalStatus is what a person has said so far.
type ApprovalStatus string

// The statuses of an approval.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalApproved ApprovalStatus = "approved"
	ApprovalDenied   ApprovalStatus = "denied"
)

// A Journal is the evidence of a dispatch, kept for tools that write.
type Journal struct {
	// State is one of the Journal constants; every other one reads as unknown.
	State JournalState
	// Response is what the business system answered, as JSON:
	// {"ok":true,"status":200,"text":"…"}. It counts when State is completed.
	Response json.RawMessage
}

// A JournalState is how far the evidence of a dispatch goes.
type JournalState string

// The states of a journal.
const (
	JournalDispatching      JournalState = "dispatching"
	JournalResponseRecorded JournalState = "response_recorded"
	JournalCompleted        JournalState = "completed"
	JournalUncertain        JournalState = "uncertain"
	JournalEvidenceDegraded JournalState = "evidence_degraded"
)

// A Run is the runtime row of the agent's turn that made the invocation.
type Run struct {
	SessionID, ClientID, Route, Thread string
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
	// DamageJob: the job is not valid; 503 invocation_record_invalid.
	DamageJob
	// DamageResult: the stored result no longer parses; a receipt with result null,
	// unless a journal tells the result.
	DamageResult
	// DamageJournal: the state of the journal is not known to this Hub.
	DamageJournal
	// DamageRun: the runtime row belongs to another session; 409 agent_run_conflict.
	DamageRun
	// DamageIdentity: it was made for another principal; 409 invocation_conflict.
	DamageIdentity
)

// Damage damages the record of an invocation.
func (h *Hub) Damage(invocationID string, how Damage) error {
	return h.EditRecord(invocationID, func(r *Record) {
		switch how {
		case DamageMarker:
			r.Job.Marker.Damaged = true
		case DamageJob:
			r.Job.Status = "damaged"
		case DamageResult:
			r.Job.Result = json.RawMessage(`{"schema_version":"damaged"}`)
		case DamageJournal:
			r.Journal = &Journal{State: "damaged"}
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
