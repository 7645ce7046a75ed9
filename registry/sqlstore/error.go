package sqlstore

import (
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/sqldb"
)

// name begins the text of every error.
var name = sqldb.Package{Name: "sqlstore", BadArgument: feedback.CodeInvalidRequest}

// The sentinels that errors.Is finds in the errors of a [Store], besides those of
// package registry. The text of every error is safe to show: it has connection keys,
// names of arguments and the text of the driver's error, but never a token or an
// encryption key.
var (
	// ErrKey: none of the keys of this store opens a stored login. The login is
	// left as it is; a store that is given the key can read it.
	ErrKey = name.Fail("no key of this store opens the login")
	// ErrSchema: the tables are not those of this version of the package.
	ErrSchema = name.Fail("the tables are of another version")
)

func fail(text string, causes ...error) error { return name.Fail(text, causes...) }

func invalid(text string) error { return name.Invalid(text) }

func checkKey(key string) error {
	if !identifier.ConnectionKey(key) {
		return invalid("the connection key must be conn_ and 32 lower-case hexadecimal digits")
	}
	return nil
}
