package main

import (
	"context"
	"errors"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

// connectionMistake says what is wrong with the flags about a connection.
func (o options) connectionMistake() string {
	if o.connection == "" {
		return "--connection needs the alias or the key of a connection"
	}
	return o.idMistake()
}

// mistake is what is wrong with the command line.
type mistake string

func (m mistake) Error() string { return string(m) }

// through is a connection in a folder to ask through.
type through struct {
	transport *host.Transport
	key       string
}

func (o options) through(ctx context.Context, getenv func(string) string) (*through, error) {
	dir, _, consent, err := o.folder.Open(getenv)
	if err != nil {
		return nil, mistake(folder.Sentence(err))
	}
	if !consent {
		return nil, mistake(folder.NoConsent)
	}
	connection, err := dir.ByAlias(ctx, o.connection)
	if errors.Is(err, registry.ErrNotFound) {
		connection, err = dir.Connection(ctx, o.connection)
	}
	switch {
	case errors.Is(err, registry.ErrNotFound), errors.Is(err, feedback.CodeInvalidRequest):
		return nil, mistake("there is no connection of this alias or key; examples/connections lists those that are there")
	case err != nil:
		return nil, errors.New(folder.Sentence(err))
	}
	transport, err := host.New(dir, agentclient.WithTimeout(o.timeout))
	if err != nil {
		return nil, err
	}
	return &through{transport, connection.Key}, nil
}

// saveLimit is how long a session that could not be saved is tried to save
// before the program ends, and the session with it.
const saveLimit = 20 * time.Second

func (t *through) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), saveLimit)
	defer cancel()
	return t.transport.Close(ctx)
}

// questions gives the questions about operations. A host captures the original
// before it sends an operation, and keeps it. Here somebody says that the
// operation was sent under the login that is there now; the Hub does not answer
// any other.
func (t *through) questions(ids []string) (questions []question) {
	for _, id := range ids {
		questions = append(questions, question{
			id: id,
			ask: func(ctx context.Context) host.Observation {
				original, err := t.transport.Capture(ctx, t.key, id)
				if err != nil {
					return host.Observation{Original: host.Original{InvocationID: id}, Err: err}
				}
				observed, err := t.transport.InspectInvocation(ctx, original)
				return host.Observation{Original: original, Receipt: observed, Err: err}
			},
		})
	}
	return questions
}
