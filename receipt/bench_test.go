package receipt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/paired"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// plainReceipt is what a caller would write who takes whatever comes.
type plainReceipt struct {
	SchemaVersion              string       `json:"schema_version"`
	ReadOnly                   bool         `json:"read_only"`
	BusinessOperationPerformed bool         `json:"business_operation_performed"`
	InvocationID               string       `json:"invocation_id"`
	AgentRunID                 string       `json:"agent_run_id"`
	Route                      string       `json:"route"`
	Tool                       string       `json:"tool"`
	ObservedAt                 string       `json:"observed_at"`
	Result                     *plainResult `json:"result"`
	ResultSource               string       `json:"result_source"`
	DispatchState              string       `json:"dispatch_state"`
	Approval                   struct {
		Status     string `json:"status"`
		ApprovalID int64  `json:"approval_id"`
	} `json:"approval"`
	JournalState string `json:"journal_state"`
}

type plainResult struct {
	SchemaVersion    string `json:"schema_version"`
	InvocationID     string `json:"invocation_id"`
	Route            string `json:"route"`
	Tool             string `json:"tool"`
	State            string `json:"state"`
	OK               bool   `json:"ok"`
	AutoRetryAllowed bool   `json:"auto_retry_allowed"`
	Text             string `json:"text"`
	BusinessStatus   int    `json:"business_status"`
	ApprovalID       int64  `json:"approval_id"`
}

// BenchmarkParse measures Parse, all checks done, beside encoding/json, which
// decodes the same bytes into plain structs and checks nothing. The two take
// turns within one run; parse/plain is the median of the ratios of the pairs.
//
//	go test -run '^$' -bench Parse ./receipt
func BenchmarkParse(b *testing.B) {
	const escaped = `{\"sku\":\"A-1\",\"名称\":\"\u8ba2\u5355\",\"note\":\"line\\none\\ttwo\"}\n`
	for _, body := range []struct{ name, text string }{
		{"small", "The governed tool invocation is awaiting approval."},
		{"escaped 2 kB", strings.Repeat(escaped, 2048/len(escaped))},
		{"Chinese 8k characters", strings.Repeat("商品已上架,库存同步完成。", 630)},
	} {
		data := []byte(executed().with("result.text", `"`+body.text+`"`).String())
		b.Run(body.name, func(b *testing.B) {
			parse := func() {
				if _, err := receipt.Parse(data, want); err != nil {
					b.Fatal(err)
				}
			}
			plain := func() {
				if err := json.Unmarshal(data, new(plainReceipt)); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				parse()
			}
			compared := paired.Compare(31, 200, parse, plain)
			b.ReportMetric(compared.Ratio, "parse/plain")
			b.ReportMetric(float64(compared.Floor.Nanoseconds()), "plain-ns/op")
		})
	}
}
