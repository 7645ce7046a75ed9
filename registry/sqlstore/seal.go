package sqlstore

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"github.com/bailinghub/bailinghub-go/registry"
)

// Sealer keeps logins secret at rest. [WithKeys] gives one that needs nothing
// else; a host whose keys live in a key management service implements its own
// over that ([WithSealer]).
//
// It must be safe for concurrent use. Both methods get associated data that says
// where the value belongs: what was sealed with some must not open with other.
// Their errors may be shown: they must not quote what they were given.
type Sealer interface {
	// Seal gives a form of plaintext that only Open can read, authenticated
	// together with associated. Two calls never give the same.
	Seal(ctx context.Context, plaintext, associated []byte) ([]byte, error)
	// Open gives what Seal was given. Where no key opens the value the error
	// matches [ErrKey]; where the value was changed, or belongs to other
	// associated data, it matches registry.ErrDamaged.
	Open(ctx context.Context, sealed, associated []byte) ([]byte, error)
}

// KeySize is the size of a key of [WithKeys] in bytes.
const KeySize = 32

// A sealed value of keyring is: the format, the identifier of the key, the
// nonce, and what AES-256-GCM gives.
const (
	sealedFormat = 1
	plainFormat  = 0
	keyIDSize    = 8
	nonceSize    = 12
	headerSize   = 1 + keyIDSize + nonceSize
)

// keyring seals with its first key and opens with any.
type keyring struct {
	first keyID
	keys  map[keyID]cipher.AEAD
}

// keyID tells keys apart. It is a part of a hash, and tells nothing about the
// key.
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
	_, _ = rand.Read(nonce) // It never fails.
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

// unsealed is the Sealer of WithPlainTokens.
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

// associated says where a login belongs.
func (s *Store) associated(key string) []byte {
	return []byte(strings.Join([]string{"bailinghub.sqlstore.v1", s.namespace, key, "login"}, "\x00"))
}

// seal gives valid credentials as the column login holds them.
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

// unseal gives the credentials of a row.
func (s *Store) unseal(ctx context.Context, row *row) (registry.Credentials, error) {
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
