package einohost

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host/journal"
)

// ToolMiddleware answers a tool call that failed with what the evidence says of
// its operation. An error of a call that is none of the journal's is passed on as
// it is. So is one after which the run is over: Patch answers such a call later.
func (o Operations) ToolMiddleware() compose.ToolMiddleware {
	return compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, input *compose.ToolInput) (*compose.ToolOutput, error) {
			output, err := next(ctx, input)
			if err == nil {
				return output, nil
			}
			report, unknown := o.Report(ctx, o.Call(input.CallID, input.Name, input.Arguments))
			if unknown != nil {
				return nil, err
			}
			text, err := json.Marshal(report)
			return &compose.ToolOutput{Result: string(text)}, err
		}
	}}
}

// AgentMiddleware is what an [adk.ChatModelAgent] needs: ToolMiddleware, and a
// conversation that is saved before the tools run. Otherwise a process that is
// killed takes the call's id with it, and the model asks for the operation anew.
// When it cannot be saved, the run ends and no tool is called. What is saved is
// without the agent's instruction, which the agent puts in front at each start.
func (o Operations) AgentMiddleware(save func(context.Context, []*schema.Message) error) adk.AgentMiddleware {
	return adk.AgentMiddleware{
		WrapToolCall: o.ToolMiddleware(),
		AfterChatModel: func(ctx context.Context, state *adk.ChatModelAgentState) error {
			messages := state.Messages
			if len(messages) > 0 && messages[0].Role == schema.System {
				messages = messages[1:]
			}
			return save(ctx, messages)
		},
	}
}

// noRecord is the answer to a call of which the journal knows nothing, of a tool
// that only looks something up for example.
const noRecord = `{"answered":false,"sentence":"The host ended before it answered this call, and has no record of an operation for it. What the call did is not known."}`

// Patch answers the tool calls that were left unanswered when the host ended, with
// what the evidence says of their operations. It calls no tool and sends nothing.
func (o Operations) Patch(ctx context.Context, messages []*schema.Message) ([]*schema.Message, error) {
	var patched []*schema.Message
	for len(messages) > 0 {
		calls, answered := messages[0].ToolCalls, map[string]bool{}
		end := 1 // of the message and the answers to it
		for ; end < len(messages) && messages[end].Role == schema.Tool; end++ {
			answered[messages[end].ToolCallID] = true
		}
		patched, messages = append(patched, messages[:end]...), messages[end:]
		for _, call := range calls {
			if answered[call.ID] {
				continue
			}
			text := []byte(noRecord)
			report, err := o.Report(ctx, o.Call(call.ID, call.Function.Name, call.Function.Arguments))
			switch {
			case err == nil:
				if text, err = json.Marshal(report); err != nil {
					return nil, err
				}
			case !errors.Is(err, journal.ErrNotFound) && !errors.Is(err, feedback.CodeInvalidRequest): // which a call without an id is
				return nil, err
			}
			patched = append(patched, schema.ToolMessage(string(text), call.ID, schema.WithToolName(call.Function.Name)))
		}
	}
	return patched, nil
}

// Tool is a tool whose calls are operations. Its name is that of the Hub's tool.
func (o Operations) Tool(info *schema.ToolInfo) tool.InvokableTool { return operationTool{o, info} }

type operationTool struct {
	Operations
	info *schema.ToolInfo
}

func (t operationTool) Info(context.Context) (*schema.ToolInfo, error) { return t.info, nil }

func (t operationTool) InvokableRun(ctx context.Context, arguments string, _ ...tool.Option) (string, error) {
	report, err := t.Do(ctx, t.Call(compose.GetToolCallID(ctx), t.info.Name, arguments), arguments)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(report)
	return string(text), err
}
