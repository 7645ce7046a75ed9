package receipt

import (
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

const maxReceiptSize = 1 << 20

// Want is what the caller asked for. Both fields are required.
type Want struct {
	// InvocationID is the original invocation.
	InvocationID string
	// Workspace is the workspace of the original authorization.
	Workspace string
}

// Parse parses data, the body of a Hub's answer. It refuses everything that the
// contract does not allow or that is not a receipt of the wanted invocation: a
// caller that uses the good parts of a bad receipt may conclude what the Hub
// never observed.
//
// The error is a [*feedback.Error]: [feedback.CodeAgentSchemaUnsupported] where
// the receipt or its result is of another schema,
// [feedback.CodeInvalidRequest] where want is not valid, else
// [feedback.CodeAgentInvalidResponse]. It names the member that is wrong and
// quotes nothing of data. Parse does not retain data.
func Parse(data []byte, want Want) (*Receipt, error) {
	failure := failures.Failure{Event: failures.BadArgument, Step: failures.Receipt}
	if !identifier.InvocationID(want.InvocationID) {
		failure.Message = "The wanted invocation id is not 64 lower-case hexadecimal digits."
		return nil, failures.New(failure)
	}
	failure.InvocationID = want.InvocationID
	if !identifier.Workspace(want.Workspace) {
		failure.Message = "The wanted workspace is not the name of a workspace."
		return nil, failures.New(failure)
	}
	return parse(data, want, failure)
}

// UnmarshalJSON does what [Parse] does, for whatever invocation and workspace
// data names. It leaves r as it is where it returns an error. It refuses null:
// where there may be no receipt, unmarshal into a variable of type *Receipt.
func (r *Receipt) UnmarshalJSON(data []byte) error {
	parsed, err := parse(data, Want{}, failures.Failure{Step: failures.Receipt})
	if err != nil {
		return err
	}
	*r = *parsed
	return nil
}

// parse does the work of [Parse]. The zero want accepts any invocation and
// workspace. failure holds what the caller already knows of the failure that
// parse returns, should it refuse data.
func parse(data []byte, want Want, failure failures.Failure) (*Receipt, error) {
	p := parser{want: want}
	problem := "it is larger than 1 MiB"
	if len(data) <= maxReceiptSize {
		problem = p.problem(strictjson.Object(data, p.member))
	}
	switch problem {
	case "":
		return &p.receipt, nil
	case otherSchema:
		failure.Event = failures.UnknownSchema
		failure.Message = "" // the failure table has the message
	default:
		failure.Event = failures.BadBody
		failure.Message = "The receipt was refused and must not be presented as a result: " + problem + "."
	}
	return nil, failures.New(failure)
}

const otherSchema = "other schema"

// parser collects a receipt member by member, in whatever order they come.
type parser struct {
	receipt Receipt
	want    Want
	// seen has the members of requiredMembers that the receipt has.
	seen members
	// wrong names the first member whose value the Go type of its field cannot
	// hold, and says why; "" where there is none.
	wrong string
}

type members uint

const (
	sawPerformed members = 1 << iota
	sawObservedAt
	sawResult
	sawOK
	sawAutoRetryAllowed
	sawText
)

// requiredMembers are those whose absence has to be noted while reading. Without
// one of them its field is zero, which is a legal value, so no rule would refuse
// the receipt. A rule does refuse the zero value of every other required member.
var requiredMembers = []struct {
	saw      members
	name     string
	inResult bool
}{
	{sawPerformed, "business_operation_performed", false},
	{sawObservedAt, "observed_at", false},
	{sawResult, "result", false},
	{sawOK, "result.ok", true},
	{sawAutoRetryAllowed, "result.auto_retry_allowed", true},
	{sawText, "result.text", true},
}

// problem says what is wrong with the receipt after strictjson.Object has read
// all of it and returned err; "" where nothing is.
func (p *parser) problem(err error) string {
	r := &p.receipt
	if err != nil {
		return "it " + err.Error() // a strictjson.Fault, which quotes nothing
	}
	if r.unsupported() {
		return otherSchema
	}
	if p.wrong != "" {
		return p.wrong
	}
	for _, member := range requiredMembers {
		if p.seen&member.saw == 0 && (r.Result != nil || !member.inResult) {
			return member.name + " is missing"
		}
	}
	if p.want != (Want{}) {
		if r.InvocationID != p.want.InvocationID {
			return "it is of another operation, because its invocation_id is not that of the original"
		}
		if r.Route != p.want.Workspace {
			return "it is of another workspace, because its route is not that of the original"
		}
	}
	if broken := r.broken(); broken != "" {
		return broken
	}
	if r.Result != nil {
		r.Result.keepHints()
	}
	return ""
}

func (p *parser) member(name []byte, d *jsontext.Decoder) (err error) {
	r := &p.receipt
	switch string(name) {
	case "schema_version":
		r.SchemaVersion, err = p.text(d, "schema_version", Schema)
	case "read_only":
		r.ReadOnly, err = p.boolean(d, "read_only", 0)
	case "business_operation_performed":
		r.BusinessOperationPerformed, err = p.boolean(d, "business_operation_performed", sawPerformed)
	case "invocation_id":
		r.InvocationID, err = p.text(d, "invocation_id", p.want.InvocationID)
	case "agent_run_id":
		r.AgentRunID, err = p.text(d, "agent_run_id", "")
	case "route":
		r.Route, err = p.text(d, "route", p.want.Workspace)
	case "tool":
		r.Tool, err = p.text(d, "tool", "")
	case "observed_at":
		p.seen |= sawObservedAt
		r.ObservedAt, err = p.instant(d, "observed_at")
	case "result":
		p.seen |= sawResult
		switch d.PeekKind() {
		case jsontext.KindNull:
		case jsontext.KindBeginObject:
			r.Result = new(Result)
			err = strictjson.Members(d, p.resultMember)
		default:
			p.refuse("result", "is neither an object nor null")
		}
	case "result_source":
		r.ResultSource, err = vocabulary(d, resultSources)
	case "dispatch_state":
		r.DispatchState, err = vocabulary(d, dispatchStates)
	case "approval":
		if d.PeekKind() == jsontext.KindBeginObject {
			err = strictjson.Members(d, p.approvalMember)
		} else {
			p.refuse("approval", "is not an object")
		}
	case "journal_state":
		r.JournalState, err = vocabulary(d, journalStates)
	}
	return err
}

func (p *parser) resultMember(name []byte, d *jsontext.Decoder) (err error) {
	r := p.receipt.Result
	switch string(name) {
	case "schema_version":
		r.SchemaVersion, err = p.text(d, "result.schema_version", ResultSchema)
	case "invocation_id":
		r.InvocationID, err = p.text(d, "result.invocation_id", p.receipt.InvocationID)
	case "route":
		r.Route, err = p.text(d, "result.route", p.receipt.Route)
	case "tool":
		r.Tool, err = p.text(d, "result.tool", p.receipt.Tool)
	case "state":
		r.State, err = vocabulary(d, resultStates)
	case "ok":
		r.OK, err = p.boolean(d, "result.ok", sawOK)
	case "auto_retry_allowed":
		r.AutoRetryAllowed, err = p.boolean(d, "result.auto_retry_allowed", sawAutoRetryAllowed)
	case "text":
		p.seen |= sawText
		r.Text, err = p.text(d, "result.text", "")
	case "business_status":
		var status int64
		status, err = p.positive(d, "result.business_status")
		r.BusinessStatus = int(min(status, math.MaxInt32)) // an int may have 32 bits; a rule refuses what was cut
	case "approval_id":
		r.ApprovalID, err = p.positive(d, "result.approval_id")
	case "retry_after_ms":
		r.RetryAfterMS, _, err = strictjson.Integer(d)
	case "rate_limit":
		if d.PeekKind() == jsontext.KindBeginObject {
			r.RateLimit = new(RateLimit)
			err = strictjson.Members(d, r.RateLimit.member)
		}
	}
	return err
}

func (p *parser) approvalMember(name []byte, d *jsontext.Decoder) (err error) {
	a := &p.receipt.Approval
	switch string(name) {
	case "status":
		a.Status, err = vocabulary(d, approvalStatuses)
	case "approval_id":
		a.ID, err = p.positive(d, "approval.approval_id")
	}
	return err
}

// member reads one member of a rate limit. A value of a wrong type leaves its
// field zero, and keepHints then drops the whole limit.
func (l *RateLimit) member(name []byte, d *jsontext.Decoder) (err error) {
	switch string(name) {
	case "level":
		l.Level, err = vocabulary(d, rateLimitLevels)
	case "count":
		l.Count, _, err = strictjson.Integer(d)
	case "window_sec":
		l.WindowSec, _, err = strictjson.Integer(d)
	case "scope":
		l.Scope, err = vocabulary(d, rateLimitScopes)
	case "source":
		l.Source, _, err = strictjson.String(d)
	}
	return err
}

// refuse notes why the value of a member cannot be used, unless an earlier one
// was noted.
func (p *parser) refuse(member, why string) {
	if p.wrong == "" {
		p.wrong = member + " " + why
	}
}

// text reads a string. Where it equals likely, as it usually does, text returns
// likely and saves a copy.
func (p *parser) text(d *jsontext.Decoder, member, likely string) (string, error) {
	text, ok, err := strictjson.Text(d)
	if !ok {
		p.refuse(member, "is not a string")
	}
	if string(text) == likely {
		return likely, err
	}
	return string(text), err
}

// vocabulary reads one of values. It gives "" for any other value, and the rules
// refuse that.
func vocabulary[T ~string](d *jsontext.Decoder, values []T) (T, error) {
	text, _, err := strictjson.Text(d)
	return word(values, text), err
}

func (p *parser) boolean(d *jsontext.Decoder, member string, saw members) (bool, error) {
	p.seen |= saw
	b, ok, err := strictjson.Bool(d)
	if !ok {
		p.refuse(member, "is neither true nor false")
	}
	return b, err
}

// positive reads an integer of at least 1: 0 stands for a member that is missing.
func (p *parser) positive(d *jsontext.Decoder, member string) (int64, error) {
	n, ok, err := strictjson.Integer(d)
	if !ok || n < 1 {
		p.refuse(member, "is not an integer from 1")
	}
	return n, err
}

func (p *parser) instant(d *jsontext.Decoder, member string) (time.Time, error) {
	text, _, err := strictjson.Text(d)
	t, ok := instant(text)
	if !ok {
		p.refuse(member, "is not a date and time in UTC")
	}
	return t, err
}

// instant reads YYYY-MM-DDThh:mm:ss[.f{1,3}]Z, a real date and time. It is
// stricter than time.Parse and reads bytes without an allocation.
func instant(text []byte) (t time.Time, ok bool) {
	const form = "0000-00-00T00:00:00"
	if len(text) <= len(form) || len(text) > len(form)+len(".000Z") || text[len(text)-1] != 'Z' {
		return t, false
	}
	fields, field := [7]int{}, 0
	for i, c := range text[:len(form)] {
		if form[i] != '0' {
			if c != form[i] {
				return t, false
			}
			field++
		} else if c < '0' || c > '9' {
			return t, false
		} else {
			fields[field] = 10*fields[field] + int(c-'0')
		}
	}
	if fraction := text[len(form) : len(text)-1]; len(fraction) > 0 {
		if fraction[0] != '.' || len(fraction) == 1 {
			return t, false
		}
		unit := 100
		for _, c := range fraction[1:] {
			if c < '0' || c > '9' {
				return t, false
			}
			fields[6] += int(c-'0') * unit
			unit /= 10
		}
	}
	year, month, day, hour, minute, second := fields[0], time.Month(fields[1]), fields[2], fields[3], fields[4], fields[5]
	t = time.Date(year, month, day, hour, minute, second, fields[6]*int(time.Millisecond), time.UTC)
	// time.Date turns February 30 into a day of March, for example: a date or
	// time that does not exist comes out changed.
	y, m, dd := t.Date()
	h, mi, s := t.Clock()
	return t, y == year && m == month && dd == day && h == hour && mi == minute && s == second
}
