package receipt

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

const (
	// CapabilitiesSchema is the schema of the capabilities that this package
	// reads.
	CapabilitiesSchema = "bailing.agent-invocation-inspection-capabilities.v1"

	maxCapabilitiesSize = 64 << 10
)

// Capabilities is what a Hub offers for inspection. There is one contract, so
// good capabilities are always the same.
type Capabilities struct {
	// SchemaVersion is [CapabilitiesSchema].
	SchemaVersion string `json:"schema_version"`
	// ReceiptSchema is [Schema].
	ReceiptSchema string `json:"receipt_schema"`
	// ReadOnly is true.
	ReadOnly bool `json:"read_only"`
}

// ParseCapabilities parses data, the body of a Hub's answer. It refuses whatever
// is not exactly the contract of this package with a [*feedback.Error] of
// [feedback.CodeAgentSchemaUnsupported]: the Hub does not support inspection,
// and no other endpoint may stand in for it.
func ParseCapabilities(data []byte) (Capabilities, error) {
	var c Capabilities
	good := false
	if len(data) <= maxCapabilitiesSize {
		err := strictjson.Object(data, func(name []byte, d *jsontext.Decoder) (err error) {
			switch string(name) {
			case "schema_version":
				c.SchemaVersion, _, err = strictjson.String(d)
			case "receipt_schema":
				c.ReceiptSchema, _, err = strictjson.String(d)
			case "read_only":
				c.ReadOnly, _, err = strictjson.Bool(d)
			}
			return err
		})
		good = err == nil && c == Capabilities{CapabilitiesSchema, Schema, true}
	}
	if !good {
		return Capabilities{}, failures.New(failures.Failure{Event: failures.BadBody, Step: failures.Negotiation})
	}
	return c, nil
}
