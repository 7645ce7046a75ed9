package hubtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Peek returns a round tripper that gives what the Hub would answer a session now, for a program that
// only watches the Hub: its requests are not counted or logged, change nothing, and no fault applies
// to them.
//
// It accepts the two requests of an inspection, with any host and token, and fails for every other
// request. It answers as if the session had just refreshed its access token. Where the session cannot
// refresh, the answer is 401.
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
