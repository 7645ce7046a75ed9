package agentauth

import (
	"context"
	"net"
	"time"
)

// WithListen has a login wait at a listener of the test's.
func WithListen(listen func(ctx context.Context, network, address string) (net.Listener, error)) BeginOption {
	return func(s *beginSettings) error {
		s.listen = listen
		return nil
	}
}

// State gives what the callback of a login has to bring.
func (l *Login) State() string { return l.state.Reveal() }

// Verifier gives what the exchange has to bring.
func (l *Login) Verifier() string { return l.verifier.Reveal() }

// Redirect gives the address that the browser comes back to.
func (l *Login) Redirect() string { return l.redirect }

// The parsers of answers, for the fuzzer.
func ParseSession(body []byte) (Session, bool)               { return parseSession(body) }
func ParseStarted(body []byte) (string, time.Duration, bool) { return parseStarted(body) }
func MayOpen(address string) bool                            { return mayOpen(address) }
