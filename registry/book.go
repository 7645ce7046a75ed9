package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// A book is the content of a registry, and has the rules for what may be in it,
// wherever it is stored. The zero book is empty.
type book struct {
	// connections are sorted by key. Key, instance ID and alias are unique.
	connections []Connection
	// current is the key of one of them, or "".
	current string
}

func (b *book) index(key string) (int, bool) {
	return slices.BinarySearchFunc(b.connections, key, func(c Connection, key string) int {
		return strings.Compare(c.Key, key)
	})
}

func (b *book) find(key string) (Connection, error) {
	entry, err := b.entry(key)
	if err != nil {
		return Connection{}, err
	}
	return *entry, nil
}

// entry gives the entry of a key. It is not a copy: a change of it changes the book.
func (b *book) entry(key string) (*Connection, error) {
	i, found := b.index(key)
	if !found {
		return nil, ErrNotFound
	}
	return &b.connections[i], nil
}

func (b *book) byAlias(alias string) (Connection, error) {
	i := slices.IndexFunc(b.connections, func(c Connection) bool { return alias != "" && c.Alias == alias })
	if i < 0 {
		return Connection{}, ErrNotFound
	}
	return b.connections[i], nil
}

// register adds the connection that r describes, or updates the one that has its
// key. changed reports whether the book has to be saved; after an error it has not.
func (b *book) register(r Registration, now time.Time) (entry Connection, changed bool, err error) {
	i, found := b.index(r.key)
	var existing Connection
	if found {
		existing = b.connections[i]
	}
	if entry, changed = r.Apply(existing, now); !changed {
		return entry, false, nil
	}
	if err := b.conflict(entry); err != nil {
		return Connection{}, false, err
	}
	if found {
		b.connections[i] = entry
		return entry, true, nil
	}
	if len(b.connections) >= MaxConnections {
		return Connection{}, false, fail("the registry is full: it holds at most 256 connections")
	}
	b.connections = slices.Insert(b.connections, i, entry)
	return entry, true, nil
}

const renaming = "renaming a connection"

// rename changes the alias of a connection, by registering the same connection with
// another alias. changed means what it means for register.
func (b *book) rename(key, alias string, now time.Time) (changed bool, err error) {
	entry, err := b.find(key)
	if err != nil {
		return false, err
	}
	options := []RegisterOption{WithAlias(alias)}
	if entry.InstanceID != "" {
		options = append(options, WithInstance(entry.InstanceID))
	}
	r, err := NewRegistration(entry.Descriptor(), options...)
	if err != nil {
		return false, err
	}
	_, changed, err = b.register(r, now)
	return changed, err
}

// conflict returns an error where another connection has the alias or the instance
// ID of entry.
func (b *book) conflict(entry Connection) error {
	for _, other := range b.connections {
		switch {
		case other.Key == entry.Key:
		case entry.Alias != "" && other.Alias == entry.Alias:
			return invalid("the alias is that of another connection, " + other.Key)
		case entry.InstanceID != "" && other.InstanceID == entry.InstanceID:
			return invalid("the instance ID is that of another connection, " + other.Key)
		}
	}
	return nil
}

func (b *book) remove(key string) error {
	i, found := b.index(key)
	if !found {
		return ErrNotFound
	}
	b.connections = slices.Delete(b.connections, i, i+1)
	if b.current == key {
		b.current = ""
	}
	return nil
}

func (b *book) setCurrent(key string) error {
	if _, found := b.index(key); key != "" && !found {
		return ErrNotFound
	}
	b.current = key
	return nil
}

// Registration is a checked request to register a connection. A store outside this
// package makes one from the arguments of its Register.
type Registration struct {
	descriptor Descriptor // in normal form
	key        string
	instanceID string
	alias      *string // nil leaves it as it is
}

// Key is the key of the connection.
func (r Registration) Key() string { return r.key }

// Apply gives the entry to store under the key. existing is the entry that is
// stored there now; the zero Connection stands for none. changed reports whether
// the two differ. The store itself checks whether another connection has the alias
// or the instance ID.
func (r Registration) Apply(existing Connection, now time.Time) (entry Connection, changed bool) {
	now = milliseconds(now)
	entry = existing
	if existing.Key == "" {
		entry = Connection{
			Key: r.key, InstanceID: r.instanceID,
			HubURL: r.descriptor.HubURL, ClientAppID: r.descriptor.ClientAppID, Workspace: r.descriptor.Workspace,
			CreatedAt: now,
		}
	}
	entry.AllowInsecureHTTP = r.descriptor.AllowInsecureHTTP
	if r.alias != nil {
		entry.Alias = *r.alias
	}
	if entry == existing {
		return entry, false
	}
	entry.UpdatedAt = now
	return entry, true
}

// RegisterOption is an option for registering a connection.
type RegisterOption func(*Registration) error

// WithAlias names the connection for people: 1 to 128 UTF-16 units without
// control characters (bidirectional ones included), with no space at either
// end, not of the form of a connection key, and not the alias of another
// connection. "" removes the alias. Without this option a connection keeps the
// alias that it has.
func WithAlias(alias string) RegisterOption {
	return func(r *Registration) error {
		if alias != "" && !identifier.NewAlias(alias) {
			return invalid("the alias must be 1 to 128 UTF-16 units, without control characters or spaces at its ends, and not look like a connection key")
		}
		r.alias = &alias
		return nil
	}
}

// WithInstance registers a named instance: one of several connections to the
// same Hub, client app and workspace. [NewInstanceID] makes an ID.
func WithInstance(instanceID string) RegisterOption {
	return func(r *Registration) error {
		r.instanceID = instanceID
		return checkInstanceID(instanceID)
	}
}

// NewRegistration checks the arguments of a registration. Its errors match
// feedback.CodeInvalidRequest.
func NewRegistration(d Descriptor, options ...RegisterOption) (Registration, error) {
	d, err := d.normal()
	if err != nil {
		return Registration{}, err
	}
	r := Registration{descriptor: d}
	for _, option := range options {
		if option == nil {
			return Registration{}, invalid("an option must not be nil")
		}
		if err := option(&r); err != nil {
			return Registration{}, err
		}
	}
	r.key = d.key(r.instanceID)
	return r, nil
}
