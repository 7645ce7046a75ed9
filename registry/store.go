package registry

import (
	"context"
	"time"
)

// Store is what inspections need of a registry. [Memory] and [Dir] are stores; a
// host may back another with its own database. Package registrytest has the suite that
// every implementation must pass.
//
// # For implementers
//
// A store is safe for concurrent use, by all processes that open the same one.
//
// Reads. Connection and Credentials give what is stored now, not what was at
// the start, and what they give is a copy. They wait for no update, not even
// for one of the same key, so that a host can check a binding while a refresh
// is on its way. Times come back as the same instant to the millisecond.
// Credentials whose Hub, client app or workspace is not that of the connection
// are not given: the error matches [ErrDamaged].
//
// Errors. A key that is not registered is [ErrNotFound], a connection without
// credentials [ErrNotLoggedIn], as errors.Is finds them. Everything else, a
// database that is down for example, is an error of the store's own; its text
// should be safe to show, because it may reach a log. Beside an error, the end
// of the context included, a read gives nothing: the zero value.
//
// Exclusion. While update runs, no other update of the same key runs, in any
// process. Updates of other keys do: one refresh may take seconds, since update
// talks to a Hub, and must hold nobody else up. Neither must those who wait:
// twenty that wait for one key take no connection, thread or lock that its
// holder, another key or a read needs. Waiting ends when ctx does,
// with an error that matches ctx.Err(), and without update having run. So does
// a call whose ctx had ended before.
//
// At most once. Update consumes a refresh token that must never be used twice:
// it is not called again, whatever happens to the save. It is given ctx (or a
// context made from it) and the credentials as they are stored at that moment,
// read after the exclusion was obtained. Without credentials it is not called.
// Inside update all reads of the store are legal, of the same key too, and so
// are saving, deleting and removing; only another UpdateCredentials is not.
//
// Saving. What update returns is saved if it differs from what it was given
// ([Credentials.Equal]), if it is valid and of this connection
// ([Connection.Check]; an empty token is not saved), and if the stored
// credentials still equal what update was given. Comparing and writing are one
// step: a login or a removal cannot come in between. If they no longer equal
// it, or the connection or its credentials are gone, a newer login or a removal
// has won: nothing is saved and the error matches [ErrChanged]. The save goes
// ahead when ctx has ended while update ran, because the old refresh token is
// used up by then; UpdateCredentials returns nil after it. An update that
// changes nothing saves nothing and is nil. A store that has saved, and cannot
// promise that what it saved outlasts a power failure, returns an error that
// matches [ErrNotSynced]; every other error means that nothing was saved.
//
// Trying again. Where the storage is away for a moment (a database that
// restarts), a save is worth trying again, with pauses, for up to [SaveLimit],
// with exclusion all the while: until it is saved, another process that reads
// the old credentials would use their refresh token a second time. Where it is
// not known whether a try has saved (the connection broke in the commit), and
// the stored credentials already are what update returned, the save has gone
// well. After that it is an error. The host that called keeps what update
// returned, and brings it back with another UpdateCredentials whose update
// returns the same, for as long as the stored credentials are those that it was
// given the first time.
//
// Failing. An error of update is returned so that errors.Is and errors.As find
// it, and nothing is saved, whatever came with it. A panic or runtime.Goexit in
// update saves nothing, gives the exclusion back and goes on in the caller.
type Store interface {
	// Connection gives the entry of a key.
	Connection(ctx context.Context, key string) (Connection, error)
	// Credentials gives the login of a key.
	Credentials(ctx context.Context, key string) (Credentials, error)
	// UpdateCredentials runs update at most once, with exclusion for this key
	// across every process that shares the store, and saves what it returns;
	// see [Store].
	UpdateCredentials(ctx context.Context, key string, update func(context.Context, Credentials) (Credentials, error)) error
}

// SaveLimit is for how long a [Store] goes on trying to save what an update
// returned before it gives the error to its caller: long enough for the restart
// or the failover of a database, and shorter than the time limit of an
// inspection, which may wait for it. A host waits for a save a little longer
// than this.
const SaveLimit = 10 * time.Second

// LoginReader is a [Store] that reads a connection and its login at once: one
// query where Connection and Credentials are two. A host that finds it uses it
// for every check of a binding. A store need not have it.
type LoginReader interface {
	Store
	// ConnectionCredentials gives what Connection and Credentials give, under
	// the same rules: what is stored now, without waiting for an update. Its
	// error is that of whichever of the two has one, Connection first; beside
	// it both values are zero. The credentials are of this connection: the error
	// matches [ErrDamaged] where what is stored is not.
	ConnectionCredentials(ctx context.Context, key string) (Connection, Credentials, error)
}

// LockReporter is a [Store] that can say what an update waits for. A host that
// gives up on a refresh before the store does has no error of the store to show
// and shows this. A store need not have it.
type LockReporter interface {
	// UpdateLock names the lock that excludes other updates of the key, as the
	// store's own errors do, for a message: "the lock …, port 12345 of
	// 127.0.0.1". It waits for nothing, and is safe to show and to log.
	UpdateLock(key string) string
}
