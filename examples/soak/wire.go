package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/registry"
)

// wire is the HTTP transport that one transport of the SDK gets. It sees every
// request before anything can happen to it.
type wire struct {
	soak      *soak
	transport int               // whose it is
	below     http.RoundTripper // by the Hub, where a test puts nothing in its place
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	s := w.soak
	h, c := s.hubAt(r), callOf(r.Context())
	switch {
	case h == nil:
		s.breaks(tokenStaysHome, "a request went to %s, which is no Hub of this run", r.URL.Host)
		return nil, errors.New("no such Hub")
	case c == nil:
		s.breaks(tokenStaysHome, "a request left that belongs to no call: %s %s", r.Method, r.URL.Path)
	case r.Method == http.MethodPost && r.URL.Path == refreshPath:
		return w.refresh(r, h, c)
	default:
		w.read(r, h, c)
	}
	return w.below.RoundTrip(r)
}

// read looks at one of the two reads.
func (w *wire) read(r *http.Request, h *hub, c *call) {
	s := w.soak
	id := invocationIn(r.URL.Path)
	if r.Method != http.MethodGet || id == "" && r.URL.Path != capabilitiesPath || r.URL.RawQuery != "" || hasBody(r) {
		s.breaks(nothingIsDone, "this left for %s: %s %s", h.name, r.Method, r.URL.RequestURI())
		return
	}
	for name := range r.Header {
		if name != "Authorization" && name != "Accept" && name != "Accept-Encoding" && name != "User-Agent" {
			s.breaks(nothingIsDone, "a read of %s had a header %s", h.name, name)
		}
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	l := s.tokens.owner(bearer)
	if l == nil {
		s.breaks(tokenStaysHome, "a request to %s had a token that it never gave out", h.name)
		return
	}
	if sessions := c.sessions(h, id); !sessions[l.id] {
		s.breaks(tokenStaysHome, "a token of session %s of %s went to %s with %s, which a %s call asked about for sessions %v",
			l.id, l.connection, h.name, r.URL.Path, c.kind, sessions)
	}
	key := l.connection.key
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.of(key)
	k.sent++
	if k.connection < k.sent || k.credentials < k.sent || !k.tokens[bearer] {
		s.breaks(requestIsChecked, "request %d of a %s call through %s left after %d looks at the connection and %d at its credentials; its token was read: %t",
			k.sent, c.kind, l.connection, k.connection, k.credentials, k.tokens[bearer])
	}
}

// hasBody reports that there is something in the body of a read.
func hasBody(r *http.Request) bool {
	if r.Body == nil {
		return false
	}
	n, err := r.Body.Read(make([]byte, 1)) // of an empty one, this takes nothing away
	return n > 0 || err != io.EOF
}

// refresh looks at a refresh, and at how much of its answer comes back.
func (w *wire) refresh(r *http.Request, h *hub, c *call) (*http.Response, error) {
	s := w.soak
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	sent := r.Clone(r.Context())
	sent.Body, sent.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	text := refreshTokenIn(body)
	l := s.tokens.owner(text)
	if l == nil {
		s.breaks(tokenStaysHome, "a refresh at %s had a token that it never gave out", h.name)
		return nil, errors.New("no such token")
	}
	if sessions := c.sessions(h, ""); !sessions[l.id] || r.Header.Get("Authorization") != "" {
		s.breaks(tokenStaysHome, "a call for sessions %v refreshed session %s of %s", sessions, l.id, l.connection)
	}
	asked, wrong, again := s.tokens.sending(r.Context(), text, w)
	if wrong != "" {
		s.breaks(refreshIsOnce, "the refresh token of session %s of %s is sent once more, though %s", l.id, l.connection, wrong)
	}
	if again {
		s.tally.session("refresh tokens sent again after no answer")
	}
	response, err := w.below.RoundTrip(sent)
	switch {
	case err != nil:
		s.tokens.came(r.Context(), asked, text, w, exchangeLost)
	case response.StatusCode == http.StatusOK:
		response.Body = &seenBody{ReadCloser: response.Body, done: func(body []byte) {
			how := exchangeSpoiled // the Hub took the token
			if body != nil {
				how = w.exchange(body, l)
			}
			s.tokens.came(r.Context(), asked, text, w, how)
		}}
	default:
		failure := failures.Failure{Status: response.StatusCode}
		if failure.Repeated() {
			s.tokens.came(r.Context(), asked, text, w, exchangeLost)
		} else {
			s.tokens.came(r.Context(), asked, text, w, exchangeSpoiled)
		}
	}
	return response, err
}

// exchange says whether a whole answer to a refresh is a good one.
func (w *wire) exchange(body []byte, l *login) exchanged {
	var grant struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if !utf8.Valid(body) || json.Unmarshal(body, &grant) != nil || w.soak.tokens.owner(grant.AccessToken) != l || w.soak.tokens.owner(grant.RefreshToken) != l {
		return exchangeSpoiled // garbled
	}
	w.soak.tally.session("rotations")
	return exchangeGood
}

// seenBody tells what was read of a body: nil where that was not all of it.
type seenBody struct {
	io.ReadCloser
	read bytes.Buffer
	once sync.Once
	done func(whole []byte)
}

func (b *seenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	if err == io.EOF {
		b.once.Do(func() { b.done(b.read.Bytes()) })
	} else if err != nil {
		b.once.Do(func() { b.done(nil) })
	}
	return n, err
}

func (b *seenBody) Close() error {
	b.once.Do(func() { b.done(nil) })
	return b.ReadCloser.Close()
}

// watchedStore notes which call looked at what.
type watchedStore struct {
	registry.Store
	soak *soak
}

func (s watchedStore) Connection(ctx context.Context, key string) (registry.Connection, error) {
	connection, err := s.Store.Connection(ctx, key)
	if c := callOf(ctx); c != nil && err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of(key).connection++
	}
	return connection, err
}

func (s watchedStore) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	asked := s.soak.clock.now()
	credentials, err := s.Store.Credentials(ctx, key)
	if c := callOf(ctx); c != nil && err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		k := c.of(key)
		k.credentials++
		k.last = latest(k.last, asked)
		access := credentials.AccessToken.Reveal()
		k.tokens[access] = true
		if next := s.soak.outages.following(access); next != "" {
			k.tokens[next] = true // what the transport holds and the store has not saved
		}
	}
	return credentials, err
}
