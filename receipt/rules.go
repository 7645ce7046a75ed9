package receipt

import (
	"math/bits"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

const (
	maxTextUnits   = 8192
	maxSourceUnits = 128
	maxSafeInteger = 1<<53 - 1 // the largest that JavaScript counts exactly
	maxRetryAfter  = 86_400_000
)

// A rule holds for every good receipt. broken is the end of a sentence that says
// how a receipt breaks it.
type rule struct {
	broken string
	holds  func(*Receipt) bool
}

// rules are those of the contract, section 3, except two: the schemas are
// checked before these rules (see unsupported), and a bad hint is dropped and
// does not make the receipt bad (see keepHints).
var rules = []rule{
	{"read_only is not true", func(r *Receipt) bool { return r.ReadOnly }},
	{"business_operation_performed is not false", func(r *Receipt) bool { return !r.BusinessOperationPerformed }},
	{"invocation_id is not an invocation id", func(r *Receipt) bool { return identifier.InvocationID(r.InvocationID) }},
	{"agent_run_id is not a UUID", func(r *Receipt) bool { return identifier.UUID(r.AgentRunID) }},
	{"route is not the name of a workspace", func(r *Receipt) bool { return identifier.Workspace(r.Route) }},
	{"tool is not the name of a tool", func(r *Receipt) bool { return identifier.Tool(r.Tool) }},
	{"observed_at is not of the years 0000 to 9999", func(r *Receipt) bool { year := r.ObservedAt.UTC().Year(); return 0 <= year && year <= 9999 }},
	{"result_source is not a known value", func(r *Receipt) bool { return known(resultSources, r.ResultSource) }},
	{"dispatch_state is not a known value", func(r *Receipt) bool { return known(dispatchStates, r.DispatchState) }},
	{"journal_state is not a known value", func(r *Receipt) bool { return known(journalStates, r.JournalState) }},
	{"approval.status is not a known value", func(r *Receipt) bool { return known(approvalStatuses, r.Approval.Status) }},
	{"approval.approval_id is not an id exactly where there is an approval", func(r *Receipt) bool { return (r.Approval.ID != 0) == (r.Approval.Status != ApprovalNone) }},
	{"approval.approval_id is out of range", func(r *Receipt) bool { return 0 <= r.Approval.ID && r.Approval.ID <= maxSafeInteger }},
	{"result is not null exactly where result_source is none", func(r *Receipt) bool { return (r.Result == nil) == (r.ResultSource == ResultSourceNone) }},
}

// resultRules hold where there is a result.
var resultRules = []rule{
	{"result.invocation_id is not that of the receipt", func(r *Receipt) bool { return r.Result.InvocationID == r.InvocationID }},
	{"result.route is not that of the receipt", func(r *Receipt) bool { return r.Result.Route == r.Route }},
	{"result.tool is not that of the receipt", func(r *Receipt) bool { return r.Result.Tool == r.Tool }},
	{"result.state is not a known value", func(r *Receipt) bool { return known(resultStates, r.Result.State) }},
	{"result.text is too long", func(r *Receipt) bool { return fits(r.Result.Text, maxTextUnits) }},
	{"result.business_status is out of range", func(r *Receipt) bool { s := r.Result.BusinessStatus; return s == 0 || 100 <= s && s <= 999 }},
	{"result.approval_id is out of range", func(r *Receipt) bool { return r.Result.ApprovalID >= 0 }},
}

// unsupported reports whether the receipt, or the result in it, is of another
// schema than this package reads.
func (r *Receipt) unsupported() bool {
	return r.SchemaVersion != Schema || r.Result != nil && r.Result.SchemaVersion != ResultSchema
}

// broken gives what the first broken rule says; "" where all hold.
func (r *Receipt) broken() string {
	for _, rule := range rules {
		if !rule.holds(r) {
			return rule.broken
		}
	}
	if r.Result == nil {
		return ""
	}
	for _, rule := range resultRules {
		if !rule.holds(r) {
			return rule.broken
		}
	}
	return ""
}

// keepHints drops the hints where the contract keeps none, and those that are
// not of the form of the contract.
func (r *Result) keepHints() {
	kept := r.State == StateRejectedBeforeDispatch && r.AutoRetryAllowed
	if !kept || r.RetryAfterMS < 1 || r.RetryAfterMS > maxRetryAfter {
		r.RetryAfterMS = 0
	}
	if !kept || !r.RateLimit.good() {
		r.RateLimit = nil
	}
}

func (l *RateLimit) good() bool {
	return l != nil && known(rateLimitLevels, l.Level) && known(rateLimitScopes, l.Scope) &&
		1 <= l.Count && l.Count <= maxSafeInteger &&
		1 <= l.WindowSec && l.WindowSec <= maxSafeInteger &&
		l.Source != "" && utf8.ValidString(l.Source) && fits(l.Source, maxSourceUnits)
}

// fits reports whether text, valid UTF-8, has at most so many UTF-16 code
// units.
func fits(text string, units int) bool {
	// UTF-8 has one to three bytes for each UTF-16 code unit, so that most texts
	// need no counting.
	return len(text) <= units || len(text) <= 3*units && utf16Len(text) <= units
}

// utf16Len counts the UTF-16 code units of valid UTF-8: one for every byte that
// begins a character, and one more where that character has four bytes. It
// counts eight bytes at a time. To decode a long Chinese text only to count it
// would take a third as long as parsing it.
func utf16Len(s string) (units int) {
	const highBits = 0x8080808080808080
	units = len(s)
	for ; len(s) >= 8; s = s[8:] {
		b := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		units -= bits.OnesCount64(b &^ (b << 1) & highBits)                      // 10xxxxxx
		units += bits.OnesCount64(b & (b << 1) & (b << 2) & (b << 3) & highBits) // 1111xxxx
	}
	for _, c := range []byte(s) {
		if c&0xc0 == 0x80 {
			units--
		}
		if c >= 0xf0 {
			units++
		}
	}
	return units
}
