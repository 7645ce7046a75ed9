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
}

// ErrNilOption says that a list of options has a nil in it.
var ErrNilOption = errors.New("an option is nil")

// Change is what every option of a client is beneath its public type: a change
// of the settings.
type Change interface {
	Apply(*Settings) error
}

// Apply gives the defaults, changed by the options. The type of an option tells
// its users nothing about settings; a nil one is [ErrNilOption].
func Apply[Option any](opts []Option) (Settings, error) {
	s := Settings{Timeout: DefaultTimeout, MaxRetries: DefaultMaxRetries}
	for _, option := range opts {
		change, ok := any(option).(Change)
		if !ok {
			return Settings{}, ErrNilOption
		}
		if err := change.Apply(&s); err != nil {
			return Settings{}, err
		}
	}
	return s, nil
}
