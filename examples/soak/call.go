package main

import (
	"context"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
)

// question is one thing that is asked: about an original, and whose operation
// that really is.
type question struct {
	original   host.Original
	connection *connection
	// operation is the one of that id at that Hub; nil where this program does
	// not follow it any more.
	operation *operation
	// crossed: the id belongs to another binding than the original says.
	crossed bool
}

// session is the one that the original is of.
func (q *question) session() string { return q.original.ExpectedBinding.SessionID }

// call is one call of the SDK, with what was seen of it below the SDK. It
// travels in the context.
type call struct {
	kind      string // single, batch or watch
	questions []*question
	start     time.Time
	limit     time.Duration // when its own deadline passes; 0 for none
	ctx       context.Context

	mu   sync.Mutex
	seen map[string]*checks // by connection key
}

// checks are the looks of a call at one connection, and its requests.
type checks struct {
	connection, credentials, sent int
	tokens                        map[string]bool // access tokens that were read
	last                          time.Time       // when the credentials were last asked for
}

type callKey struct{}

// newCall begins a call. Its context has the deadline, if it has one.
func (s *soak) newCall(ctx context.Context, kind string, limit time.Duration, questions ...*question) (*call, context.CancelFunc) {
	c := &call{kind: kind, questions: questions, start: s.clock.now(), limit: limit, seen: map[string]*checks{}}
	ctx = context.WithValue(ctx, callKey{}, c)
	var cancel context.CancelFunc
	if limit > 0 {
		c.ctx, cancel = context.WithTimeout(ctx, limit)
	} else {
		c.ctx, cancel = context.WithCancel(ctx)
	}
	return c, cancel
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// sessions gives the sessions whose token may go with a request of this call:
// for the negotiation with a Hub, or for the receipt of an id.
func (c *call) sessions(h *hub, id string) map[string]bool {
	sessions := map[string]bool{}
	for _, q := range c.questions {
		if q.connection.hub == h && (id == "" || q.original.InvocationID == id) {
			sessions[q.session()] = true
		}
	}
	return sessions
}

// of gives what was seen of one connection, to be used under the lock.
func (c *call) of(key string) *checks {
	k := c.seen[key]
	if k == nil {
		k = &checks{tokens: map[string]bool{}}
		c.seen[key] = k
	}
	return k
}

// lastCheck is when the credentials of a connection were last asked for.
func (c *call) lastCheck(key string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(key).last
}

// codeOf is the code of an answer for the tally.
func codeOf(err error) string {
	if code := feedback.CodeOf(err); code != "" {
		return string(code)
	}
	return "an error of another kind"
}
