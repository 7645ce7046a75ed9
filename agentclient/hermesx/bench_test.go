package hermesx_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx"
	"github.com/bailinghub/bailinghub-go/internal/paired"
)

// quickServer is a server that has its rows written already, and takes 5 ms for
// a page, as a database does that counts 20,000 rows for it.
func quickServer(b *testing.B, total int) *httptest.Server {
	rows := make([][]byte, total)
	for n := range rows {
		rows[n] = []byte(row(n))
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		limit, offset := asked(r)
		from := min(offset, total)
		_, _ = io.WriteString(rw, `{"execution_receipts":[`)
		for n := from; n < min(from+limit, total); n++ {
			if n > from {
				_, _ = io.WriteString(rw, ",")
			}
			_, _ = rw.Write(rows[n])
		}
		_, _ = fmt.Fprintf(rw, `],"total":%d}`, total)
	}))
	b.Cleanup(server.Close)
	return server
}

// BenchmarkAllReceipts compares the reading of 20,000 receipts with a bare loop of
// GETs that decodes and proves nothing, at the same page size; and the default
// page size with the best one.
func BenchmarkAllReceipts(b *testing.B) {
	const total = 20_000
	server := quickServer(b, total)
	client, err := hermesx.New(hermesx.Config{BaseURL: server.URL, TokenSource: static("synthetic-access-key")})
	if err != nil {
		b.Fatal(err)
	}
	defer client.CloseIdleConnections()
	all := func(limit int) func() {
		return func() {
			n := 0
			for _, err := range client.AllReceipts(context.Background(), hermesx.ReceiptQuery{Limit: limit}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != total {
				b.Fatalf("%d receipts", n)
			}
		}
	}
	bare := func(limit int) func() {
		return func() {
			for offset := 0; offset < total; offset += limit {
				request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/v1/execution-receipts?limit=%d&offset=%d", server.URL, limit, offset), nil)
				if err != nil {
					b.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer synthetic-access-key")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					b.Fatal(err)
				}
				var page struct {
					Receipts []struct {
						ID            string    `json:"id"`
						TenantID      string    `json:"tenant_id"`
						SessionID     string    `json:"session_id"`
						UserID        string    `json:"user_id"`
						ToolName      string    `json:"tool_name"`
						Input         string    `json:"input"`
						Output        string    `json:"output"`
						Status        string    `json:"status"`
						Duration      int64     `json:"duration_ms"`
						IdempotencyID string    `json:"idempotency_id"`
						TraceID       string    `json:"trace_id"`
						CreatedAt     time.Time `json:"created_at"`
					} `json:"execution_receipts"`
					Total int `json:"total"`
				}
				if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
					b.Fatal(err)
				}
				response.Body.Close()
			}
		}
	}
	defer http.DefaultClient.CloseIdleConnections()
	for b.Loop() {
		for _, limit := range []int{100, 250, 1000, 5000} {
			result := paired.Compare(11, 1, all(limit), bare(limit))
			b.ReportMetric(result.Ratio, fmt.Sprintf("xbare/%d", limit))
		}
		best := paired.Compare(11, 1, all(0), all(5000))
		b.ReportMetric(best.Ratio, "default/best")
		b.ReportMetric(float64(best.Subject.Milliseconds()), "ms/default")
	}
}
