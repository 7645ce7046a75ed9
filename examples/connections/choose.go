package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// choose gives the connection of a name or a key.
func (p *program) choose(ctx context.Context, name string) (registry.Connection, error) {
	connection, err := p.dir.ByAlias(ctx, name)
	if errors.Is(err, registry.ErrNotFound) {
		connection, err = p.dir.Connection(ctx, name)
	}
	if errors.Is(err, registry.ErrNotFound) || errors.Is(err, feedback.CodeInvalidRequest) {
		return registry.Connection{}, mistake("there is no connection of this name or key; connections list shows those that are there")
	}
	return connection, err
}

// use makes a connection the current one.
func (p *program) use(ctx context.Context, args []string) error {
	connection, err := p.choose(ctx, args[0])
	if err != nil {
		return err
	}
	if err := p.dir.SetCurrent(ctx, connection.Key); err != nil {
		return err
	}
	if p.options.json {
		return p.writeJSON(result{Connection: describe(connection, connection.Key)})
	}
	fmt.Fprintf(p.out, "The current connection is %s.\n", called(connection))
	return nil
}

// rename gives a connection another name.
func (p *program) rename(ctx context.Context, args []string) error {
	connection, err := p.choose(ctx, args[0])
	if err != nil {
		return err
	}
	options := []registry.RegisterOption{registry.WithAlias(args[1])}
	if connection.InstanceID != "" {
		options = append(options, registry.WithInstance(connection.InstanceID))
	}
	renamed, err := p.dir.Register(ctx, connection.Descriptor(), options...)
	if err != nil {
		return err
	}
	if p.options.json {
		current, err := p.current(ctx)
		if err != nil {
			return err
		}
		return p.writeJSON(result{Connection: describe(renamed, current)})
	}
	fmt.Fprintf(p.out, "%s is called %s now.\n", called(connection), called(renamed))
	return nil
}

// current gives the key of the current connection; "" for none.
func (p *program) current(ctx context.Context) (string, error) {
	current, err := p.dir.Current(ctx)
	if errors.Is(err, registry.ErrNotFound) {
		return "", nil
	}
	return current.Key, err
}

// called is what a person calls a connection.
func called(c registry.Connection) string {
	if c.Alias != "" {
		return receipt.Printable(c.Alias)
	}
	return c.Key
}

// tell writes a failure: a sentence on stderr, or JSON.
func (p *program) tell(err error) {
	if p.options.json {
		_ = p.writeJSON(result{Error: asJSON(err)})
		return
	}
	fmt.Fprintln(p.stderr, "connections:", sentence(err))
}

// sentence is an error for people.
func sentence(err error) string {
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		return receipt.Printable(failure.Feedback.Message)
	}
	return folder.Sentence(err)
}

// asJSON gives the feedback object of a failure, or its sentence.
func asJSON(err error) any {
	if failure, ok := errors.AsType[*feedback.Error](err); ok {
		return failure
	}
	return map[string]string{"message": sentence(err)}
}

// result is the JSON of one line.
type result struct {
	Connection *connectionJSON `json:"connection,omitempty"`
	Login      string          `json:"login,omitempty"` // as the list has it
	Until      string          `json:"until,omitempty"` // the end of the session that is stored
	Session    *sessionJSON    `json:"session,omitempty"`
	Replaced   string          `json:"replaced_session_id,omitempty"`
	Error      any             `json:"error,omitempty"`
}

type connectionJSON struct {
	Key         string `json:"connection_key"`
	InstanceID  string `json:"connection_instance_id,omitempty"`
	Alias       string `json:"alias,omitempty"`
	HubURL      string `json:"base_url"`
	ClientAppID string `json:"client_app_id"`
	Workspace   string `json:"workspace"`
	Current     bool   `json:"current"`
}

func describe(c registry.Connection, current string) *connectionJSON {
	return &connectionJSON{c.Key, c.InstanceID, c.Alias, c.HubURL, c.ClientAppID, c.Workspace, c.Key == current}
}

func (p *program) writeJSON(r result) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(screen.JSON(text), '\n'))
	return err
}
