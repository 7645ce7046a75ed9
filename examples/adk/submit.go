package adkhost

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
)

// submission is what a Hub takes an operation as.
type submission struct {
	InvocationID string          `json:"invocation_id"`
	AgentRunID   string          `json:"agent_run_id,omitempty"`
	Route        string          `json:"route"`
	Tool         string          `json:"tool"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
}

// prepare makes the request that hands an operation to the Hub, under exactly the
// session that was captured. Sending is the host's own doing: the SDK has no code
// that could.
func prepare(ctx context.Context, transport *host.Transport, original host.Original, arguments string) (*http.Request, error) {
	body, err := json.Marshal(submission{original.InvocationID, original.AgentRunID, original.Workspace, original.Tool, json.RawMessage(arguments)})
	if err != nil {
		return nil, err
	}
	token, err := transport.Token(ctx, original)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, original.ExpectedBinding.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token.SetAuthHeader(request)
	request.Header.Set("Content-Type", "application/json")
	request.GetBody = nil // no second body: nothing below repeats the request
	return request, nil
}

// send sends an operation once: over a connection of its own, and without
// following a redirect. What comes back is read and dropped, an error too: it says
// how far the operation had got at that moment at most, and only the evidence
// says how far it got.
func send(request *http.Request) {
	client := http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	answer, err := client.Do(request)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	_ = answer.Body.Close()
}
