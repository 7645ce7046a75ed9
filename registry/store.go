package registry

import (
	"context"
	"time"
)

// Store is the part of a registry that inspections use. [Memory] and [Dir] are
// stores, and so is the Store of package sqlstore; a host may implement another.
// Package registrytest has the suite that every implementation must pass.
//
// # For implementers
//
// A store is safe for concurrent use, by all processes that open the same one.
//
// Reads. Connection and Credentials give a copy of what is stored at the moment of
// the call. They do not wait for an update, not even for one of the same key, so
// that a host can check a binding while a refresh runs. Times come back as the same
// instant, to the millisecond. Where the Hub, client app or workspace of stored
// credentials is not that of the connection, the store does not give them: the error
// matches [ErrDamaged].
//
// Errors. The error matches [ErrNotFound] for a key that is not registered, and
// [ErrNotLoggedIn] for a connection without credentials. Every other failure, such as
// a database that is down, is an error of the store's own. Its text should be safe to
// show, because it may reach a log. A read that returns an error, also because its
// context has ended, returns the zero value with it.
//
// Exclusion. While update runs, no other update of the same key runs, in any process.
// Updates of other keys do run, because update sends a request to a Hub, may take
// seconds and must not make anybody else wait. The callers that wait for a key must
// not block anybody either: even twenty of them hold no connection, thread or lock
// that the running update, another key or a read needs. A caller stops waiting when
// its ctx ends: the error matches ctx.Err(), and update has not run. The same holds
// for a call whose ctx had ended before.
//
// At most once. update uses a refresh token, and the Hub ends the session when a
// refresh token is used twice. So the store calls update at most once, whatever
// happens to the save. update gets ctx, or a context made from it, and the credentials
// as they are stored after the exclusion was obtained. Without credentials the store
// does not call it. Inside update the caller may read from the store, also the same
// key, and may save, delete and remove; it must not call UpdateCredentials.
//
// Saving. The store saves what update returns if it differs from what update was given
// ([Credentials.Equal]), if it is valid and belongs to this connection
// ([Connection.Check], which refuses an empty token, for example), and if the stored
// credentials are still equal to what update was given. Comparing and writing are one
// step: no login and no removal can happen in between. Where the stored credentials
// are no longer equal, or were removed, the newer login or the removal counts: the
// store saves nothing and the error matches [ErrChanged]. When ctx has ended while
// update ran, the store saves nevertheless and returns nil, because the old refresh
// token has been used. When update changes nothing, the store saves nothing and
// returns nil. A store that has saved, but whose save may not outlast a power failure,
// returns an error that matches [ErrNotSynced]. Every other error means that nothing
// was saved.
//
// Trying again. Where the storage fails for a moment, such as a database that
// restarts, the store should try the save again, with pauses, for up to [SaveLimit].
// It keeps the exclusion meanwhile: another process would otherwise read the old
// credentials and use their refresh token a second time. Where an attempt may have
// saved (the connection broke in the commit) and the stored credentials are what
// update returned, the save has succeeded. After SaveLimit the store returns an error.
// The calling host then keeps what update returned, and calls UpdateCredentials again
// with an update that returns the same, as long as the stored credentials are those
// that the first update was given.
//
// Failing. Where update returns an error, the store saves nothing and returns an error
// in which errors.Is and errors.As find that of update. Where update panics or calls
// runtime.Goexit, the store saves nothing and ends the exclusion, and the panic or
// Goexit continues in the caller.
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

// SaveLimit is how long a [Store] tries to save what an update returned before it
// returns an error: long enough for the restart or the failover of a database, and
// shorter than the time limit of an inspection, which may wait for the save. A host
// waits for a save a little longer than this.
const SaveLimit = 10 * time.Second

// LoginReader is a [Store] that reads a connection and its login at once, with one
// query, where Connection and Credentials need two. Package host uses it for every
// check of a binding where a store implements it. A store need not implement it.
type LoginReader interface {
	Store
	// ConnectionCredentials gives what Connection and Credentials give, by the same
	// rules: what is stored now, without waiting for an update. Its error is that
	// of Connection, or else that of Credentials; both values are zero with an
	// error. The error matches [ErrDamaged] where the stored credentials do not
	// belong to this connection.
	ConnectionCredentials(ctx context.Context, key string) (Connection, Credentials, error)
}

// LockReporter is a [Store] that can say which lock an update waits for. A host whose
// time limit ends before the store's has no error of the store to show, and shows this
// text instead. A store need not implement it.
type LockReporter interface {
	// UpdateLock names the lock that excludes other updates of the key, as the
	// store's own errors do, for a message: "the lock …, port 12345 of
	// 127.0.0.1". It waits for nothing, and is safe to show and to log.
	UpdateLock(key string) string
}
