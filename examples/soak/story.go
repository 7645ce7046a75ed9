package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// hubText is how hubtest writes a text of the Hub's own.
const hubText = "Synthetic text."

// An operation is one that this program sent to a Hub, and moves along there.
type operation struct {
	hub      *hub
	login    *login
	original host.Original
	tool     string
	run      string // of the agent

	// life is what a receipt of it says, without the time of observation; nil
	// while the Hub has none. It is what this program did, told without the
	// mock Hub's help.
	life history[*receipt.Receipt]

	stage  stage
	number int // of its texts
}

// A stage is where an operation stands.
type stage int

const (
	unsent stage = iota
	awaiting
	approved
	denied
	turnedAway // with leave to be resumed
	hanging
	recorded
	settled
)

// base is a receipt of the operation before anything is known of it.
func (o *operation) base() receipt.Receipt {
	return receipt.Receipt{
		SchemaVersion: receipt.Schema,
		ReadOnly:      true,
		InvocationID:  o.original.InvocationID,
		AgentRunID:    o.run,
		Route:         o.original.Workspace,
		Tool:          o.tool,
		ResultSource:  receipt.ResultSourceJob,
		DispatchState: receipt.DispatchNotDispatched,
		Approval:      receipt.Approval{Status: receipt.ApprovalNone},
		JournalState:  receipt.JournalAbsent,
	}
}

func (o *operation) result(state receipt.ResultState, text string) *receipt.Result {
	return &receipt.Result{
		SchemaVersion: receipt.ResultSchema,
		InvocationID:  o.original.InvocationID,
		Route:         o.original.Workspace,
		Tool:          o.tool,
		State:         state,
		OK:            state == receipt.StateExecuted,
		Text:          text,
	}
}

// text is one that no other operation has, and this one only once. It ends with a
// full stop, because a Hub shows no space at the end of a text.
func (o *operation) text(r *rand.Rand) string {
	o.number++
	fillers := []string{
		"", "完成 ✓", "a \"quoted\" <b>text</b> & more\\\n", "\u0085\u202e\u200b\u2028",
		"👍🏽 " + strings.Repeat("长", r.IntN(4000)), strings.Repeat("x", r.IntN(8000)),
	}
	return fmt.Sprintf("%s %s %d %s.", o.hub.name, o.login.id, o.number, fillers[r.IntN(len(fillers))])
}

// A step is one change at the Hub: what it makes of the receipt and the stage,
// and how to bring it about. What it plans is for the Hub's next dispatch.
type step struct {
	now   receipt.Receipt
	stage stage
	plan  *hubtest.Outcome
	do    func() error
}

// take does a step. One that the Hub refuses, because the session is over,
// changes nothing.
func (o *operation) take(s *step) error {
	return o.life.change(func() (*receipt.Receipt, error) {
		if s.plan != nil {
			o.hub.Plan(*s.plan)
		}
		if err := s.do(); err != nil {
			if s.plan != nil {
				o.hub.usePlan()
			}
			return nil, err
		}
		o.stage = s.stage
		return &s.now, nil
	})
}

// submit sends the operation.
func (o *operation) submit(r *rand.Rand) error {
	s := &step{now: o.base(), do: func() error {
		_, err := o.hub.Submit(o.login.id, hubtest.Submission{
			InvocationID: o.original.InvocationID, AgentRunID: o.run,
			Route: o.original.Workspace, Tool: o.tool,
		})
		return err
	}}
	if o.tool != hubtest.GovernedTool {
		o.dispatch(r, s)
		return o.take(s)
	}
	s.stage = awaiting
	s.now.Result = o.result(receipt.StateAwaitingApproval, hubText)
	submit := s.do
	s.do = func() error {
		if err := submit(); err != nil {
			return err
		}
		record, _ := o.hub.Record(o.original.InvocationID) // the Hub chose the number
		s.now.Approval = receipt.Approval{Status: receipt.ApprovalPending, ID: record.Approval.ID}
		s.now.Result.ApprovalID = record.Approval.ID
		return nil
	}
	return o.take(s)
}

// move takes the operation one step on, as the program that sent it, a person
// or the business system would.
func (o *operation) move(r *rand.Rand) error {
	id := o.original.InvocationID
	s := &step{now: *o.life.now()}
	switch o.stage {
	case awaiting:
		if r.IntN(3) == 0 {
			s.stage, s.now.Approval.Status = denied, receipt.ApprovalDenied
			s.do = func() error { return o.hub.Deny(id) }
		} else {
			s.stage, s.now.Approval.Status = approved, receipt.ApprovalApproved
			s.do = func() error { return o.hub.Approve(id) }
		}
	case denied:
		s.stage, s.now.Result = settled, o.result(receipt.StateDenied, hubText)
		s.do = func() error { return o.hub.Resume(id) }
	case approved, turnedAway:
		o.dispatch(r, s)
		s.do = func() error { return o.hub.Resume(id) }
	case hanging, recorded:
		outcome := o.outcome(r, s)
		s.do = func() error { return o.hub.Finish(id, outcome) }
	default:
		return nil
	}
	return o.take(s)
}

// dispatch plans what comes of the Hub's handing the operation to the business
// system, or turning it away.
func (o *operation) dispatch(r *rand.Rand, s *step) {
	o.hub.performed++ // taken back below where it is turned away
	var plan hubtest.Outcome
	switch n := r.IntN(12); n {
	case 0, 1, 2:
		o.hub.performed--
		s.now.Result = o.result(receipt.StateRejectedBeforeDispatch, hubText)
		if n == 0 {
			s.stage, plan = settled, hubtest.Rejected()
			break
		}
		after := time.Duration(1+r.IntN(1000)) * time.Millisecond
		limit := &hubtest.RateLimit{Level: "tool", Count: 1 + r.IntN(9), WindowSec: 60, Source: o.hub.name}
		s.stage, plan = turnedAway, hubtest.RateLimited(after, limit)
		s.now.Result.AutoRetryAllowed = true
		s.now.Result.RetryAfterMS = after.Milliseconds()
		s.now.Result.RateLimit = &receipt.RateLimit{
			Level: receipt.RateLimitTool, Count: int64(limit.Count), WindowSec: 60, Scope: receipt.RateLimitShared, Source: limit.Source,
		}
	case 3, 4, 5:
		s.stage, plan = hanging, hubtest.Hanging()
		o.unknown(s, receipt.JournalDispatching)
		if !o.hasJournal() {
			s.now.Result = o.result(receipt.StateInProgress, hubText)
		}
	case 6:
		s.stage, plan = recorded, hubtest.ResponseRecorded(200, o.text(r))
		if !o.hasJournal() {
			s.stage = settled
		}
		o.unknown(s, receipt.JournalResponseRecorded)
	default:
		plan = o.outcome(r, s)
	}
	s.plan = &plan
}

// outcome is an end of a dispatch, and what a receipt says of it.
func (o *operation) outcome(r *rand.Rand, s *step) hubtest.Outcome {
	s.stage = settled
	status, state := 200, receipt.StateExecuted
	switch r.IntN(8) {
	case 0:
		o.unknown(s, receipt.JournalUncertain)
		return hubtest.AnswerLost()
	case 1:
		o.unknown(s, receipt.JournalEvidenceDegraded)
		return hubtest.EvidenceDegraded()
	case 2, 3:
		status, state = 422, receipt.StateBusinessRejected
	}
	text := o.text(r)
	o.unknown(s, receipt.JournalCompleted)
	s.now.Result = o.result(state, text)
	s.now.Result.BusinessStatus = status
	return hubtest.Answered(status, text)
}

// unknown is a dispatch of whose outcome the Hub knows nothing.
func (o *operation) unknown(s *step, journal receipt.JournalState) {
	s.now.DispatchState = receipt.DispatchAttempted
	s.now.Result = o.result(receipt.StateReconciliationRequired, hubText)
	if o.hasJournal() {
		s.now.ResultSource, s.now.JournalState = receipt.ResultSourceJournal, journal
	}
}

// hasJournal: the Hub keeps one for what changes something.
func (o *operation) hasJournal() bool { return o.tool != hubtest.ReadTool }
