// Package einohost puts the operations of an agent in Eino on a journal, so that
// a model always hears what became of a tool call: after an error, a cancelled run
// or a killed process too.
//
// This file is what asks; eino.go ties it to the framework; submit.go is how this
// host sends. Copy all three.
package einohost

import (
	"context"
	"errors"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
)

// Operations are those of one conversation. It is a plain value, and as safe for
// concurrent use as its journal and its transport are.
type Operations struct {
	Journal   journal.Journal
	Transport *host.Transport
	// Connection is the key of the connection that they go through.
	Connection string
	// Conversation is put in front of the call ids, because a model may use one
	// anew in another conversation.
	Conversation string
}

// Call is a tool call as the journal has it. A call without an id stays without
// one: it cannot be told from another, and the journal refuses it.
func (o Operations) Call(id, tool, arguments string) journal.Call {
	if id != "" {
		id = o.Conversation + "/" + id
	}
	return journal.Call{CallID: id, ConnectionKey: o.Connection, Tool: tool, About: arguments}
}

// Do sends the operation of a call, once, with these arguments, and reports how far it got. It is an
// error when nothing was sent, because something failed before or because the
// call was made before ([journal.ErrExists]); Report then tells what is known.
func (o Operations) Do(ctx context.Context, call journal.Call, arguments string) (host.Report, error) {
	entry, err := journal.Begin(ctx, o.Journal, o.Transport, call)
	if err != nil {
		return host.Report{}, err
	}
	request, err := prepare(ctx, o.Transport, entry.Original, arguments)
	if err == nil {
		err = o.Journal.Sending(ctx, call.CallID)
	}
	if err != nil { // not one byte has left
		return host.Report{}, errors.Join(err, o.Journal.Withdraw(context.WithoutCancel(ctx), call.CallID))
	}
	send(request)
	return o.Report(ctx, call)
}

// Report asks how far the operation of a call got, and records what it learns. It
// is [journal.ErrNotFound] where the journal has none of this call, tool and
// arguments.
func (o Operations) Report(ctx context.Context, call journal.Call) (host.Report, error) {
	entry, err := o.Journal.Find(ctx, call.CallID)
	switch {
	case err != nil:
		return host.Report{}, err
	case entry.Original.Tool != call.Tool || entry.About != call.About:
		return host.Report{}, journal.ErrNotFound // a model used the id a second time
	case entry.State == journal.StateSettled:
		return entry.Report, nil
	}
	observed, err := o.Transport.InspectInvocation(ctx, entry.Original)
	if ctx.Err() != nil {
		return host.Report{}, ctx.Err()
	}
	report := host.Explain(entry.Original, observed, err)
	// An operation whose report could not be recorded stays open: it is asked
	// about again, and nothing is lost.
	_, _ = o.Journal.Record(ctx, report.InvocationID, report)
	return report, nil
}
