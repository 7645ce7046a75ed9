package boundary

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// The numbers of design rules 5 and 7.
const (
	DefaultTimeout    = 15 * time.Second
	DefaultMaxRetries = 2
)

// Settings are what the options of a client decide.
type Settings struct {
	// HTTPClient is the caller's; nil for a transport of our own.
	HTTPClient *http.Client
	// Timeout is for a whole inspection.
	Timeout time.Duration
	// MaxRetries is for a whole inspection.
	MaxRetries int
	// Logger gets one record for each inspection and each retry; nil for none.
	Logger *slog.Logger
	// NegotiationReuse is how long a negotiation counts; 0 for one inspection.
	NegotiationReuse time.Duration
	// Shared is the transport of a facade above, which keeps the time limit
	// and logs inspections itself; nil for a client that stands alone.
	Shared *Transport
	// Prompt says that the token source of a facade above never outlives its
	// context, so that it needs no goroutine of its own.
	Prompt bool
}

// ErrNilOption says that a list of options has a nil in it.
var ErrNilOption = errors.New("an option is nil")

// Apply gives the defaults, changed by the options.
func Apply[Option ~func(*Settings) error](opts []Option) (Settings, error) {
	s := Settings{Timeout: DefaultTimeout, MaxRetries: DefaultMaxRetries}
	for _, option := range opts {
		if option == nil {
			return Settings{}, ErrNilOption
		}
		if err := option(&s); err != nil {
			return Settings{}, err
		}
	}
	return s, nil
}
