package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
)

// maxBookSize is the greatest size of agent-connections.json in bytes.
const maxBookSize = 256 << 10

// bookFile is the content of agent-connections.json.
type bookFile struct {
	SchemaVersion *int64             `json:"schema_version"`
	Current       *string            `json:"current_connection_key,omitzero"`
	Connections   *[]connectionEntry `json:"connections"`
}

type connectionEntry struct {
	Key               *string `json:"connection_key"`
	InstanceID        *string `json:"connection_instance_id,omitzero"`
	BaseURL           *string `json:"base_url"`
	ClientAppID       *string `json:"client_app_id"`
	Workspace         *string `json:"workspace"`
	Alias             *string `json:"alias,omitzero"`
	AllowInsecureHTTP *bool   `json:"allow_insecure_http,omitzero"`
	CreatedAt         *string `json:"created_at"`
	UpdatedAt         *string `json:"updated_at"`
}

// The schema versions of agent-connections.json. Only the second one has named
// instances.
const (
	plainSchema    = 1
	instanceSchema = 2
)

func (b *book) schema() int64 {
	if slices.ContainsFunc(b.connections, func(c Connection) bool { return c.InstanceID != "" }) {
		return instanceSchema
	}
	return plainSchema
}

// encode gives the book as the text of agent-connections.json.
func (b *book) encode() ([]byte, error) {
	schema := b.schema()
	entries := make([]connectionEntry, len(b.connections))
	for i, c := range b.connections {
		created, updated := c.CreatedAt.Format(timeFormat), c.UpdatedAt.Format(timeFormat)
		entries[i] = connectionEntry{
			Key: &c.Key, InstanceID: optional(c.InstanceID),
			BaseURL: &c.HubURL, ClientAppID: &c.ClientAppID, Workspace: &c.Workspace,
			Alias: optional(c.Alias), AllowInsecureHTTP: optional(c.AllowInsecureHTTP),
			CreatedAt: &created, UpdatedAt: &updated,
		}
	}
	data, err := json.Marshal(bookFile{SchemaVersion: &schema, Current: optional(b.current), Connections: &entries})
	switch {
	case err != nil:
		return nil, fail("the registry cannot be written as JSON")
	case len(data) > maxBookSize:
		return nil, fail("the registry is full: its file would be larger than 256 KiB")
	}
	return data, nil
}

// optional gives a pointer to value, or nil for a zero value, so that the encoder
// leaves the member out.
func optional[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// decodeBook reads what encode or the other SDK wrote. It refuses the whole text
// where any part is not as a registry writes it. The flaw then says what is wrong
// and quotes nothing of the text; it continues a sentence that begins with the name
// of the file. It is "" for a good text.
func decodeBook(data []byte) (*book, string) {
	var file bookFile
	if err := strictjson.Unmarshal(data, &file, strictjson.RefuseUnknown); err != nil {
		return nil, err.Error()
	}
	if file.SchemaVersion == nil || *file.SchemaVersion != plainSchema && *file.SchemaVersion != instanceSchema {
		return nil, "has a schema version that is neither 1 nor 2"
	}
	if file.Connections == nil {
		return nil, "lacks its connections"
	}
	if len(*file.Connections) > MaxConnections {
		return nil, "has more than 256 connections"
	}
	b := &book{}
	for i, entry := range *file.Connections {
		connection, flaw := entry.connection()
		if flaw != "" {
			return nil, fmt.Sprintf("has a flaw in connection %d of its list: %s", i+1, flaw)
		}
		b.connections = append(b.connections, connection)
	}
	slices.SortFunc(b.connections, func(x, y Connection) int { return strings.Compare(x.Key, y.Key) })
	if flaw := b.repetition(); flaw != "" {
		return nil, flaw
	}
	if b.schema() != *file.SchemaVersion {
		return nil, "has not the schema version of its connections: 2 with named instances, else 1"
	}
	if file.Current != nil {
		if _, found := b.index(*file.Current); !found {
			return nil, "has a current connection that is not one of its connections"
		}
		b.current = *file.Current
	}
	return b, ""
}

// repetition says which key, alias or instance ID two connections of a sorted book
// share; "" where they share none.
func (b *book) repetition() (flaw string) {
	aliases, instances := map[string]bool{}, map[string]bool{}
	for i, c := range b.connections {
		switch {
		case i > 0 && b.connections[i-1].Key == c.Key:
			return "has a connection key twice"
		case aliases[c.Alias]:
			return "has an alias twice"
		case instances[c.InstanceID]:
			return "has an instance ID twice"
		}
		aliases[c.Alias], instances[c.InstanceID] = c.Alias != "", c.InstanceID != ""
	}
	return ""
}

// connection gives the connection of an entry. Where the entry is not valid, flaw
// says what is wrong with it.
func (e connectionEntry) connection() (c Connection, flaw string) {
	for _, member := range [...]*string{e.Key, e.BaseURL, e.ClientAppID, e.Workspace, e.CreatedAt, e.UpdatedAt} {
		if member == nil {
			return Connection{}, "a member is missing"
		}
	}
	c = Connection{Key: *e.Key, HubURL: *e.BaseURL, ClientAppID: *e.ClientAppID, Workspace: *e.Workspace}
	c.AllowInsecureHTTP = e.AllowInsecureHTTP != nil && *e.AllowInsecureHTTP
	if e.InstanceID != nil {
		if c.InstanceID = *e.InstanceID; !identifier.InstanceID(c.InstanceID) {
			return Connection{}, "its instance ID is not one"
		}
	}
	if e.Alias != nil {
		if c.Alias = *e.Alias; !identifier.Alias(c.Alias) {
			return Connection{}, "its alias is not one"
		}
	}
	descriptor, err := c.Descriptor().normal()
	switch {
	case err != nil:
		return Connection{}, strings.TrimPrefix(err.Error(), prefix)
	case descriptor.HubURL != c.HubURL:
		return Connection{}, "its Hub URL is not in normal form"
	case descriptor.key(c.InstanceID) != c.Key:
		return Connection{}, "its key is not that of what it connects"
	}
	var createdOK, updatedOK bool
	c.CreatedAt, createdOK = parseTime(*e.CreatedAt)
	c.UpdatedAt, updatedOK = parseTime(*e.UpdatedAt)
	c.CreatedAt, c.UpdatedAt = milliseconds(c.CreatedAt), milliseconds(c.UpdatedAt)
	if !createdOK || !updatedOK || !writable(c.CreatedAt) || !writable(c.UpdatedAt) {
		return Connection{}, "a time of it is not one of RFC 3339"
	}
	return c, ""
}
