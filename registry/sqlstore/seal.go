package sqlstore

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"strings"

	"github.com/bailinghub/bailinghub-go/registry"
)

// Sealer encrypts and authenticates logins for the database. [WithKeys] is enough for a
// host that has the keys itself. A host whose keys are in a key management service
// implements a Sealer that calls the service ([WithSealer]).
//
// A Sealer must be safe for concurrent use. Both methods get associated data, which
// name the row of the value: a value that was sealed with some associated data must not
// open with others. Their errors may be shown, so they must not quote their arguments.
type Sealer interface {
	// Seal encrypts plaintext, and authenticates it together with associated. Two
	// calls never give the same value.
	Seal(ctx context.Context, plaintext, associated []byte) ([]byte, error)
	// Open gives the plaintext of a value of Seal. The error matches [ErrKey] where
	// no key opens the value. It matches registry.ErrDamaged where the value was
	// changed, or was sealed with other associated data.
	Open(ctx context.Context, sealed, associated []byte) ([]byte, error)
}

// KeySize is the size of a key of [WithKeys] in bytes.
const KeySize = 32

// A sealed value of a keyring consists of the format, the identifier of the key, the
// nonce, and the output of AES-256-GCM.
const (
	sealedFormat = 1
	plainFormat  = 0
	keyIDSize    = 8
	nonceSize    = 12
	headerSize   = 1 + keyIDSize + nonceSize
)

// keyring seals with its first key, and opens with each of its keys.
type keyring struct {
	first keyID
	keys  map[keyID]cipher.AEAD
}

// keyID identifies a key. It is a part of a hash, from which the key cannot be found.
type keyID [keyIDSize]byte

func newKeyring(first []byte, others [][]byte) (*keyring, error) {
	ring := &keyring{keys: map[keyID]cipher.AEAD{}}
	for i, key := range append([][]byte{first}, others...) {
		if len(key) != KeySize {
			return nil, invalid("a key must have 32 bytes")
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, invalid("a key cannot be used")
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, invalid("a key cannot be used")
		}
		sum := sha256.Sum256(append([]byte("bailinghub.sqlstore.key.v1\x00"), key...))
		id := keyID(sum[:keyIDSize])
		ring.keys[id] = aead
		if i == 0 {
			ring.first = id
		}
	}
	return ring, nil
}

func (k *keyring) Seal(_ context.Context, plaintext, associated []byte) ([]byte, error) {
	out := make([]byte, headerSize, headerSize+len(plaintext)+16)
	out[0] = sealedFormat
	copy(out[1:], k.first[:])
	nonce := out[1+keyIDSize : headerSize]
	_, _ = rand.Read(nonce) // never fails
	return k.keys[k.first].Seal(out, nonce, plaintext, associated), nil
}

func (k *keyring) Open(_ context.Context, sealed, associated []byte) ([]byte, error) {
	if len(sealed) < headerSize || sealed[0] != sealedFormat {
		return nil, fail("the stored login is not one that was sealed by a key: it is not used", registry.ErrDamaged)
	}
	aead := k.keys[keyID(sealed[1:1+keyIDSize])]
	if aead == nil {
		return nil, fail("no key of this store opens the stored login: give the key that sealed it to WithKeys too", ErrKey)
	}
	plaintext, err := aead.Open(nil, sealed[1+keyIDSize:headerSize], sealed[headerSize:], associated)
	if err != nil {
		return nil, fail("the stored login was changed, or moved here from another connection or namespace: it is not used", registry.ErrDamaged)
	}
	return plaintext, nil
}

// unsealed is the Sealer of WithPlainTokens, which encrypts nothing.
type unsealed struct{}

func (unsealed) Seal(_ context.Context, plaintext, _ []byte) ([]byte, error) {
	return append([]byte{plainFormat}, plaintext...), nil
}

func (unsealed) Open(_ context.Context, sealed, _ []byte) ([]byte, error) {
	switch {
	case len(sealed) > 0 && sealed[0] == plainFormat:
		return sealed[1:], nil
	case len(sealed) > 0 && sealed[0] == sealedFormat:
		return nil, fail("the stored login is sealed, and this store was opened with WithPlainTokens", ErrKey)
	}
	return nil, fail("the stored login is not one that this package wrote", registry.ErrDamaged)
}

// associated gives the associated data of a login: its namespace and connection.
func (s *Store) associated(key string) []byte {
	return []byte(strings.Join([]string{"bailinghub.sqlstore.v1", s.namespace, key, "login"}, "\x00"))
}

// seal gives the value of the column login for valid credentials.
func (s *Store) seal(ctx context.Context, key string, credentials registry.Credentials) ([]byte, error) {
	text, err := registry.EncodeCredentials(credentials)
	if err != nil {
		return nil, err
	}
	sealed, err := s.sealer.Seal(ctx, text, s.associated(key))
	if err != nil {
		return nil, fail("sealing the login of "+key+" failed", err)
	}
	return sealed, nil
}

// unseal gives the credentials of a row. What keeps a login from being read is
// logged, because a host that asks through a transport only hears that its store
// failed.
func (s *Store) unseal(ctx context.Context, row *row) (registry.Credentials, error) {
	credentials, err := s.open(ctx, row)
	if err != nil {
		s.logger.ErrorContext(ctx, "a stored login cannot be used", slog.String("connection_key", row.Key), slog.String("reason", err.Error()))
	}
	return credentials, err
}

func (s *Store) open(ctx context.Context, row *row) (registry.Credentials, error) {
	text, err := s.sealer.Open(ctx, row.login.V, s.associated(row.Key))
	if err != nil {
		return registry.Credentials{}, fail("opening the login of "+row.Key+" failed: "+err.Error(), err)
	}
	credentials, err := registry.DecodeCredentials(text)
	if err != nil {
		return registry.Credentials{}, fail("the login of "+row.Key+" is damaged", err)
	}
	if err := row.Check(credentials); err != nil {
		return registry.Credentials{}, fail("the login of "+row.Key+" is that of another connection: it is not used", registry.ErrDamaged)
	}
	return credentials, nil
}
