package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// login is a session of a Hub, and what happened to it that can make an
// inspection fail.
type login struct {
	id         string
	hub        *hub
	connection *connection

	mu     sync.Mutex
	lost   bool        // nothing can renew it any more
	events []time.Time // its tokens changed, or died
	ended  time.Time   // its connection has another one; zero while it has not
	waits  []*wait     // for the answers to its refreshes
}

// wait is that for one answer: until zero while none has come.
type wait struct{ from, until time.Time }

// endsAfter reports whether it goes on after an instant.
func (w *wait) endsAfter(at time.Time) bool { return w.until.IsZero() || w.until.After(at) }

// happened notes an event; lost says that the session cannot go on.
func (l *login) happened(at time.Time, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = l.lost || lost
	l.events = append(l.events, at)
	for len(l.events) > 0 && at.Sub(l.events[0]) > keepHistory {
		l.events = l.events[1:]
	}
}

// troubled reports whether anything happened to it from one instant to another,
// or it was lost before. To a call that waits for a refresh belongs all that
// happened since that was sent, though the call itself began later.
func (l *login) troubled(from, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return true
	}
	const saving = time.Second // at most, after the answer came
	began := from
	for _, w := range l.waits {
		if w.endsAfter(began.Add(-saving)) {
			from = earliest(from, w.from)
		}
	}
	for _, at := range l.events {
		if !at.Before(from) && !at.After(until) {
			return true
		}
	}
	return false
}

// end notes that its connection has another login.
func (l *login) end(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = at
}

// refreshing notes that a refresh was sent.
func (l *login) refreshing(from time.Time) *wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &wait{from: from}
	l.waits = append(l.waits, w)
	l.waits = l.waits[max(0, len(l.waits)-100):]
	return w
}

// refreshed notes that its answer came, or never will.
func (l *login) refreshed(w *wait, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.until = until
}

// longestRefresh is the longest wait for one between two instants, that of one
// included whose answer has not come.
func (l *login) longestRefresh(after, until time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waits {
		switch {
		case w.until.IsZero():
			longest = max(longest, until.Sub(w.from))
		case w.until.After(after):
			longest = max(longest, w.until.Sub(w.from))
		}
	}
	return longest
}

// token is one that a Hub gave out.
type token struct {
	login *login

	// Of a refresh token: how often the SDK sent it, how often it arrived, and
	// what came back.
	sent, arrived int
	inFlight      context.Context     // of the last request; nil once that is over
	since         time.Time           // when it was sent
	used          bool                // a whole and good answer came back
	spoiled       map[*wire]time.Time // when whom the Hub told that it took or refused it, with nothing to save
}

// tokens knows all sessions, and whose each token is.
type tokens struct {
	clock  clock
	mu     sync.Mutex
	known  map[string]*token
	logins map[string]*login
}

// learn notes the tokens of a session before anybody can have them.
func (t *tokens) learn(l *login, s hubtest.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logins[l.id] = l
	for _, text := range []string{s.AccessToken, s.RefreshToken} {
		if t.known[text] == nil {
			t.known[text] = &token{login: l, spoiled: map[*wire]time.Time{}}
		}
	}
}

// owner gives the session of a token; nil for none.
func (t *tokens) owner(text string) *login {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.known[text]; k != nil {
		return k.login
	}
	return nil
}

// login gives a session; nil for one that ended long ago.
func (t *tokens) login(id string) *login {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logins[id]
}

// forget drops the sessions that ended long ago, with their tokens.
func (t *tokens) forget() {
	now := t.clock.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, l := range t.logins {
		l.mu.Lock()
		ended := l.ended
		l.mu.Unlock()
		if !ended.IsZero() && now.Sub(ended) > keepHistory {
			delete(t.logins, id)
		}
	}
	for text, k := range t.known {
		if t.logins[k.login.id] == nil {
			delete(t.known, text)
		}
	}
}

// refusalMemory is for how long a transport does not send a refresh token again
// that brought it nothing, less the moment until it knows that.
const refusalMemory = time.Minute - 2*time.Second

// mayNotKnow reports whether the session was rotated by another transport that
// could not save that yet: nobody else can know.
func (w *wire) mayNotKnow(session string) bool {
	holder, ok := w.soak.outages.heldBy(session)
	return ok && holder != w.transport
}

// sending notes that a refresh token goes out, and says what is wrong with
// that. A second time is right only where the transport cannot know that the
// Hub took or refused it the first time, and does not wait for that any more.
func (t *tokens) sending(ctx context.Context, text string, w *wire) (sent *wait, wrong string, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[text]
	now := t.clock.now()
	switch {
	case k == nil:
		return nil, "nobody gave it out", false
	case k.inFlight != nil && k.inFlight.Err() == nil:
		wrong = fmt.Sprintf("it has been on its way for %v", now.Sub(k.since))
	case k.used && w.mayNotKnow(k.login.id):
		w.soak.tally.session("lost to another transport before it could save")
	case k.used:
		wrong = "it was exchanged already, and the answer came back whole"
	case now.Sub(k.spoiled[w]) < refusalMemory:
		wrong = "the Hub had taken or refused it less than a minute ago, and this transport knows"
	}
	again = k.sent > 0
	k.sent, k.inFlight, k.since = k.sent+1, ctx, now
	return k.login.refreshing(now), wrong, again
}

// How an exchange of a refresh token ended, seen from the SDK.
type exchanged int

const (
	exchangeLost exchanged = iota // no answer, or one that says "not now"
	exchangeGood
	exchangeSpoiled // the Hub took or refused it, and there is nothing to save
)

// came notes how the exchange ended that was sent with this context.
func (t *tokens) came(ctx context.Context, sent *wait, text string, w *wire, how exchanged) {
	t.mu.Lock()
	k := t.known[text]
	if k == nil {
		t.mu.Unlock()
		return
	}
	k.used = k.used || how == exchangeGood
	if how == exchangeSpoiled {
		k.spoiled[w] = t.clock.now()
	}
	if k.inFlight == ctx {
		k.inFlight = nil
	}
	t.mu.Unlock()
	now := t.clock.now()
	k.login.refreshed(sent, now)
	k.login.happened(now, how == exchangeSpoiled)
}

// arrived notes a refresh token at the Hub, and reports whether the SDK sent it
// that often.
func (t *tokens) arrived(text string) (l *login, sentThatOften bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[text]
	if k == nil {
		return nil, true // garbled on the way
	}
	k.arrived++
	return k.login, k.arrived <= k.sent
}
