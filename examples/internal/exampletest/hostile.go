package exampletest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// HostileWords is a text that a terminal would obey, that hides, or that is
// shown in another order than it has, with a name of its own to be found by.
const HostileWords = "hostile\r\x1b[2K\x1b]0;title\a\u009b2J\u202egnp.exe\u200b\u2028\U000e0041\x7f\tThe operation was executed.\n"

// CheckSafe checks that a terminal gets nothing to obey from an output, and
// nobody a token.
func CheckSafe(t *testing.T, output string) {
	t.Helper()
	for _, r := range output {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			t.Errorf("the output has the character %U: %q", r, output)
			return
		}
	}
	if strings.Contains(output, "synthetic-") {
		t.Error("the output has a token")
	}
}

// HostileHubs gives servers in the place of a Hub, by what is hostile in their
// answers. To the request for a receipt of one that is called "receipt" comes a
// good one of the operation that was sent there, or else of some operation, with
// hostile words where the contract lets a text be anything.
func HostileHubs(t *testing.T, workspace string) map[string]*httptest.Server {
	t.Helper()
	words, err := json.Marshal(HostileWords)
	if err != nil {
		t.Fatal(err)
	}
	const capabilities = `{"schema_version":"bailing.agent-invocation-inspection-capabilities.v1","receipt_schema":"bailing.agent-invocation-receipt.v1","read_only":true}`
	receiptPath := regexp.MustCompile(`/([0-9a-f]{64})/receipt$`)
	type operation struct {
		ID         string `json:"invocation_id"`
		AgentRunID string `json:"agent_run_id"`
		Tool       string `json:"tool"`
	}
	receipt := func(o operation, state, dispatch string) string {
		return fmt.Sprintf(`{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"%s",`+
			`"agent_run_id":"%s","route":"%s","tool":"%s","observed_at":"2026-09-15T12:00:00.000Z","result":{"schema_version":"bailing.agent-tool-invocation.v1",`+
			`"invocation_id":"%[1]s","route":"%[3]s","tool":"%[4]s","state":%[5]s,"ok":false,"auto_retry_allowed":true,"text":%[6]s,"rate_limit":{"level":"tool","count":1,`+
			`"window_sec":60,"scope":"tool_provider_shared","source":%[6]s}},"result_source":"job","dispatch_state":%[7]s,"approval":{"status":"none"},"journal_state":"absent"}`,
			o.ID, cmp.Or(o.AgentRunID, "33333333-3333-4333-8333-333333333333"), workspace, cmp.Or(o.Tool, "goods_update"), state, words, dispatch)
	}
	// Everything but a receipt has the same answer, the token and a submission
	// included.
	receipts := func(state, dispatch string) http.HandlerFunc {
		var sent sync.Map // from invocation id to operation
		return func(w http.ResponseWriter, r *http.Request) {
			switch id := receiptPath.FindStringSubmatch(r.URL.Path); {
			case id != nil:
				known, ok := sent.Load(id[1])
				if !ok {
					known = operation{ID: id[1]}
				}
				io.WriteString(w, receipt(known.(operation), state, dispatch))
			case r.Method == http.MethodGet:
				io.WriteString(w, capabilities)
			default:
				var o operation
				if err := json.NewDecoder(r.Body).Decode(&o); err == nil {
					sent.Store(o.ID, o)
				}
				fmt.Fprintf(w, `{"state":%s,"text":%[1]s,"error":%[1]s,"access_token":%[1]s,"token_type":%[1]s,"session_id":%[1]s}`, words)
			}
		}
	}
	refusing := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			header := strings.NewReplacer("\r", "", "\n", "", "\a", "").Replace(HostileWords)
			for _, name := range []string{"Location", "Retry-After", "X-Request-Id", "Www-Authenticate", "Content-Type", "Server"} {
				w.Header().Set(name, header)
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":%s,"message":%[1]s,"request_id":%[1]s,"status":%[1]s}`, words)
		}
	}
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer connection.Close()
			io.WriteString(connection, text)
		}
	}
	servers := map[string]*httptest.Server{}
	for name, handler := range map[string]http.HandlerFunc{
		"receipt":            receipts(`"rejected_before_dispatch"`, `"not_dispatched"`),
		"state":              receipts(string(words), `"not_dispatched"`),
		"dispatch":           receipts(`"executed"`, string(words)),
		"a page":             func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, HostileWords) },
		"redirect":           refusing(http.StatusFound),
		"invalid request":    refusing(http.StatusBadRequest),
		"unauthorized":       refusing(http.StatusUnauthorized),
		"forbidden":          refusing(http.StatusForbidden),
		"not found":          refusing(http.StatusNotFound),
		"conflict":           refusing(http.StatusConflict),
		"too many":           refusing(http.StatusTooManyRequests),
		"broken":             refusing(http.StatusInternalServerError),
		"status line":        raw("HTTP/1.1 500 " + strings.ReplaceAll(HostileWords, "\n", "") + "\r\nContent-Length: 0\r\n\r\n"),
		"no status line":     raw(HostileWords + "\r\n\r\n"),
		"no header":          raw("HTTP/1.1 200 OK\r\n" + HostileWords + ": " + HostileWords + "\r\n\r\n"),
		"no transfer coding": raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + strings.ReplaceAll(HostileWords, "\n", "") + "\r\n\r\n"),
		"no content length":  raw("HTTP/1.1 200 OK\r\nContent-Length: " + strings.ReplaceAll(HostileWords, "\n", "") + "\r\n\r\n"),
	} {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		servers[name] = server
	}
	return servers
}
