package adkhost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"google.golang.org/adk/plugin"
	"google.golang.org/adk/session"
	"google.golang.org/adk/tool"
	"google.golang.org/adk/tool/functiontool"
	"google.golang.org/genai"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
)

// Call is a tool call as the journal has it. The session is put in front of the
// call's id, because a model may use one anew in another session. A call without
// an id stays without one, and the journal refuses it.
func (o Operations) Call(sessionID, id, tool string, arguments map[string]any) journal.Call {
	if id != "" {
		id = sessionID + "/" + id
	}
	about, err := json.Marshal(arguments)
	if err != nil {
		id = "" // they came as JSON, so this is no call of a model
	}
	return journal.Call{CallID: id, ConnectionKey: o.Connection, Tool: tool, About: string(about)}
}

// Tool is a tool whose calls are operations; config.Name is that of the Hub's
// tool. What it begins, it begins in its function, which is after a person has
// confirmed the call where config asks for that.
func (o Operations) Tool(config functiontool.Config) (tool.Tool, error) {
	return functiontool.New(config, func(ctx tool.Context, arguments map[string]any) (host.Report, error) {
		call := o.Call(ctx.SessionID(), ctx.FunctionCallID(), config.Name, arguments)
		call.AgentRunID = strings.TrimPrefix(ctx.InvocationID(), "e-")
		return o.Do(ctx, call, call.About)
	})
}

// Plugin answers a tool call that failed with what the evidence says of its
// operation, also when the run was cancelled. An error of a call that is none of
// the journal's is left to the plugins after it: it has to be the first of those
// that look at errors.
func (o Operations) Plugin() (*plugin.Plugin, error) {
	return plugin.New(plugin.Config{
		Name: "bailinghub_operations",
		OnToolErrorCallback: func(ctx tool.Context, t tool.Tool, arguments map[string]any, _ error) (map[string]any, error) {
			call := o.Call(ctx.SessionID(), ctx.FunctionCallID(), t.Name(), arguments)
			// The answer is recorded, whatever became of the run: it has to be true.
			report, err := o.Report(context.WithoutCancel(ctx), call)
			if err != nil {
				return nil, nil
			}
			return response(report)
		},
	})
}

// noRecord is the answer to a call of which the journal knows nothing, of a tool
// that only looks something up for example.
var noRecord = map[string]any{
	"answered": false,
	"sentence": "The host ended before it answered this call, and has no record of an operation for it. What the call did is not known.",
}

// Reopen answers the calls of a session that were left unanswered when the host
// ended, with what the evidence says of their operations, and gives how many those
// were. It calls no tool and sends nothing. Run it before the session goes on; a
// run without a message then lets the model go on where it was.
func (o Operations) Reopen(ctx context.Context, sessions session.Service, request *session.GetRequest) (int, error) {
	got, err := sessions.Get(ctx, request)
	if err != nil {
		return 0, err
	}
	events, answered, reopened := slices.Collect(got.Session.Events().All()), map[string]bool{}, 0
	for _, event := range events {
		for _, part := range parts(event) {
			if part.FunctionResponse != nil {
				answered[part.FunctionResponse.ID] = true
			}
		}
	}
	for _, event := range events {
		answer := session.NewEvent(event.InvocationID)
		answer.Author, answer.Branch, answer.Content = event.Author, event.Branch, &genai.Content{Role: genai.RoleUser}
		for _, part := range parts(event) {
			call := part.FunctionCall
			if call == nil || answered[call.ID] {
				continue
			}
			said := noRecord
			report, err := o.Report(ctx, o.Call(request.SessionID, call.ID, call.Name, call.Args))
			switch {
			case err == nil:
				if said, err = response(report); err != nil {
					return reopened, err
				}
			case !errors.Is(err, journal.ErrNotFound) && !errors.Is(err, feedback.CodeInvalidRequest): // which a call without an id is
				return reopened, err
			case slices.Contains(event.LongRunningToolIDs, call.ID):
				continue // it waits for somebody, such as a person who confirms a call
			}
			answer.Content.Parts = append(answer.Content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: said}})
		}
		if len(answer.Content.Parts) == 0 {
			continue
		}
		if err := sessions.AppendEvent(ctx, got.Session, answer); err != nil {
			return reopened, err
		}
		reopened += len(answer.Content.Parts)
	}
	return reopened, nil
}

// parts gives those of an event; one that only changes state has none.
func parts(event *session.Event) []*genai.Part {
	if event.Content == nil {
		return nil
	}
	return event.Content.Parts
}

// response gives a report as the answer to a call.
func response(report host.Report) (answer map[string]any, err error) {
	data, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	return answer, json.Unmarshal(data, &answer)
}
