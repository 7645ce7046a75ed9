package hubtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Peek returns a round tripper that tells what the Hub would answer a session
// now, for whoever watches a Hub without being part of what happens: nothing is
// counted or logged, nothing changes and no fault meets it.
//
// It takes the two requests of an inspection, whatever host and token they
// name, and fails for every other one. The answer is that to an access token of
// the session that was just renewed, as a host does with one that expired; a
// session that cannot renew it is answered 401.
func (h *Hub) Peek(sessionID string) http.RoundTripper { return peek{h, sessionID} }

type peek struct {
	hub       *Hub
	sessionID string
}

func (p peek) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	h, t := p.hub, p.hub.locate(r, nil)
	if t.kind != CapabilitiesRequest && t.kind != ReceiptRequest {
		return nil, fmt.Errorf("hubtest: Peek takes no request of the kind %q", t.kind)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	a, _, _ := h.decide(r, t, nil, func(string) (*session, *Refusal) { return h.renewable(p.sessionID) })
	h.mu.Unlock()
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)),
		StatusCode: a.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        a.header,
		Body:          io.NopCloser(bytes.NewReader(a.body)),
		ContentLength: int64(len(a.body)),
		Request:       r,
	}, nil
}

// renewable finds a live session that has a good access token or can get one,
// and says when the Hub cannot find out. The caller holds the lock.
func (h *Hub) renewable(id string) (*session, *Refusal) {
	now := h.now()
	s := h.sessions[id]
	switch {
	case h.noSessions():
		return nil, nil
	case h.broken[AuthStorage] || h.broken[ClientStorage]:
		return nil, refuse(500, "internal_error")
	case s != nil && h.live(s) && (s.good(now) || now.Before(s.RefreshExpiresAt)):
		return s, nil
	}
	return nil, nil
}
