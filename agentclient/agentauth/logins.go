package agentauth

import (
	"context"
	"errors"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/nilcheck"
	"github.com/bailinghub/bailinghub-go/registry"
)

// LogInOptions are the options of [LogIn].
type LogInOptions struct {
	// Show is called once, before the wait for the person begins. It has to show the
	// person the URL of the prompt. It may also open the URL in a browser, and must
	// not wait for the person. An error that it returns ends the login. Required.
	Show func(ctx context.Context, prompt Prompt) error
	// Alias names the connection for people; see registry.WithAlias. Where it is
	// empty, a connection keeps the alias that it has, and a new one gets none.
	Alias string
	// Replace is the key of a connection whose login is replaced. The session of that
	// login ends: operations that were sent under it cannot be inspected any more. The
	// prompt says until when they could have been. Empty means that no login is
	// replaced.
	Replace string
	// Callback has the options for the port of the callback.
	Callback []BeginOption
	// Client has the options of the client that asks the Hub; see [New].
	Client []agentclient.Option
}

// Prompt is what a person has to know of a login that waits for them.
type Prompt struct {
	// URL is the address at which the person approves or refuses the login. Show it
	// before you try to open it in a browser, and keep it out of logs.
	URL string
	// ExpiresAt is the time until which the person can decide.
	ExpiresAt time.Time
	// CallbackAddress is the host and port to which the browser comes back.
	CallbackAddress string
	// Replaces is the login that this one replaces; nil for none.
	Replaces *Replaced
	// Paste accepts the address at which a browser on another machine ended; see
	// [Login.Paste]. Any goroutine may call it until LogIn returns.
	Paste func(ctx context.Context, address string) error
}

// Replaced is a login that a new one replaces.
type Replaced struct {
	// Connection is the connection of both logins.
	Connection registry.Connection
	// SessionID is the session of the replaced login; "" where the stored login is
	// damaged.
	SessionID string
	// EndsAt is the time until which operations of that session could have been
	// inspected. The replacement ends the session earlier.
	EndsAt time.Time
}

// Result is a login that was made and saved.
type Result struct {
	// Connection is the connection that has the login. It is the current one now.
	Connection registry.Connection
	// Session is what the Hub says of the login.
	Session Session
	// Replaced is the login that this one has replaced; nil for none.
	Replaced *Replaced
	// ReplacedLivesOn says that the replaced session could not be ended at the Hub.
	// Nobody has its tokens any more, and it ends by itself at Replaced.EndsAt.
	ReplacedLivesOn bool
}

// LogIn lets a person log in, saves the login in the store, and makes its connection the
// current one.
//
// A connection that has a login keeps it, because operations can be inspected only under the
// session that they were sent under. The new login is saved beside it, as a named instance.
// The old one stays until the host removes it. [LogInOptions] can replace it instead.
//
// LogIn holds no lock of the store while the person decides, and changes nothing in it before
// the Hub has confirmed the session. After an error the store is as it was, and no session is
// left at the Hub; where either was not possible, the error says so ([ErrSessionLivesOn]).
// Every error is a [*feedback.Error] of the operation login; see [Login.Wait].
func LogIn(ctx context.Context, store Store, config Config, options LogInOptions) (Result, error) {
	const login = feedback.OperationLogin
	switch {
	case ctx == nil:
		return Result{}, invalid(login, "The context is nil.")
	case nilcheck.IsNil(store):
		return Result{}, invalid(login, "The store is missing.")
	case options.Show == nil:
		return Result{}, invalid(login, "LogInOptions.Show is missing: nobody would learn where to log in.")
	}
	client, err := New(config, options.Client...)
	if err != nil {
		return Result{}, err
	}
	defer client.CloseIdleConnections()
	p := &placing{store: store, config: client.config, alias: options.Alias, replace: options.Replace}
	replaces, err := p.check(ctx)
	if err != nil {
		return Result{}, err
	}
	l, err := client.Begin(ctx, options.Callback...)
	if err != nil {
		return Result{}, err
	}
	defer l.Close()
	if err := options.Show(ctx, Prompt{URL: l.URL(), ExpiresAt: l.ExpiresAt(), CallbackAddress: l.CallbackAddress(), Replaces: replaces, Paste: l.Paste}); err != nil {
		f := failure{operation: login, event: badArgument, causes: []error{err}, message: "The address to log in at could not be shown, so the login was given up."}
		if ctx.Err() != nil {
			f = ended(ctx, login)
		}
		return Result{}, f.build()
	}
	_, session, err := l.wait(ctx, p.keep)
	if err != nil {
		return Result{}, err
	}
	result := Result{Connection: p.connection, Session: session}
	if old := p.replaced; old != nil {
		result.Replaced = replaces
		if old.SessionID != "" {
			result.Replaced = &Replaced{Connection: p.connection, SessionID: old.SessionID, EndsAt: old.RefreshExpiresAt}
			ending, cancel := context.WithTimeout(await.Detach(ctx), cleanupLimit)
			defer cancel()
			result.ReplacedLivesOn = client.revoke(ending, login, old.AccessToken.Reveal(), old.RefreshToken.Reveal()) != nil
		}
	}
	return result, nil
}

// placing finds the connection for a new login in a store, and saves the login under it.
type placing struct {
	store   Store
	config  Config
	alias   string
	replace string // the key of a connection; "" for none

	connection registry.Connection   // the connection, when the login is saved
	replaced   *registry.Credentials // the replaced login; nil for none, empty for a damaged one
}

// check returns the errors that saving the login would return, before a person is asked to log
// in for nothing. It gives the login that will be replaced.
func (p *placing) check(ctx context.Context) (*Replaced, error) {
	const login = feedback.OperationLogin
	if p.alias != "" {
		switch other, err := p.store.ByAlias(ctx, p.alias); {
		case err == nil && other.Key != p.replace && !p.isFree(ctx, other):
			return nil, invalid(login, "The alias is that of another connection, "+other.Key+". Choose another one, or replace the login of that connection.")
		case err != nil && !errors.Is(err, registry.ErrNotFound):
			return nil, storeError(ctx, login, err)
		}
	}
	if p.replace == "" {
		return nil, nil
	}
	connection, err := p.store.Connection(ctx, p.replace)
	if err != nil {
		return nil, storeError(ctx, login, err)
	}
	if !p.isFor(connection) {
		return nil, invalid(login, "The connection whose login is to be replaced is for another Hub, client app or workspace.")
	}
	switch old, err := p.store.Credentials(ctx, connection.Key); {
	case err == nil:
		return &Replaced{Connection: connection, SessionID: old.SessionID, EndsAt: old.RefreshExpiresAt}, nil
	case errors.Is(err, registry.ErrDamaged):
		return &Replaced{Connection: connection}, nil
	case errors.Is(err, registry.ErrNotLoggedIn):
		return nil, nil
	default:
		return nil, storeError(ctx, login, err)
	}
}

// isFor reports whether a connection has the Hub, client app and workspace of the login.
func (p *placing) isFor(connection registry.Connection) bool {
	return connection.HubURL == p.config.HubURL && connection.ClientAppID == p.config.ClientAppID && connection.Workspace == p.config.Workspace
}

// isFree reports whether a connection is the plain one for the login and has no login yet.
func (p *placing) isFree(ctx context.Context, connection registry.Connection) bool {
	if !p.isFor(connection) || connection.InstanceID != "" {
		return false
	}
	_, err := p.store.Credentials(ctx, connection.Key)
	return errors.Is(err, registry.ErrNotLoggedIn)
}

// keep saves a login. It replaces another login where that is wanted. Otherwise it uses the
// plain connection where that has no login, or else a named instance. After an error the
// store is as it was.
func (p *placing) keep(ctx context.Context, credentials registry.Credentials, _ Session) error {
	const login = feedback.OperationLogin
	current, err := p.store.Current(ctx)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return storeError(ctx, login, err)
	}
	var undo func(context.Context) error
	if p.replace != "" {
		undo, err = p.takeOver(ctx, credentials)
	} else {
		undo, err = p.add(ctx, credentials)
	}
	if err == nil {
		if err = p.store.SetCurrent(ctx, p.connection.Key); err == nil {
			return nil
		}
		err = storeError(ctx, login, err)
	}
	if undo != nil {
		undoing, cancel := context.WithTimeout(await.Detach(ctx), cleanupLimit)
		defer cancel()
		undone := undo(undoing)
		if now, lookErr := p.store.Current(undoing); lookErr == nil && now.Key == p.connection.Key && now.Key != current.Key {
			undone = errors.Join(undone, p.store.SetCurrent(undoing, current.Key))
		}
		if undone != nil {
			err = with(err, "The store could not be brought back to how it was: look at connection "+p.connection.Key+".")
		}
	}
	return err
}

// add saves a login under a connection without one. undo removes it again.
func (p *placing) add(ctx context.Context, credentials registry.Credentials) (undo func(context.Context) error, err error) {
	undo, err = p.addTo(ctx, credentials)
	if errors.Is(err, registry.ErrChanged) && undo == nil {
		undo, err = p.addTo(ctx, credentials, registry.WithInstance(registry.NewInstanceID()))
	}
	if err != nil {
		err = storeError(ctx, feedback.OperationLogin, err)
	}
	return undo, err
}

// addTo saves a login under the plain connection, or under the instance of an option. Where
// that has a login, addTo leaves it alone and the error matches ErrChanged. It sets the alias
// last: until the login is saved, another process may log in at the same connection, and the
// alias would be on the connection of that login.
func (p *placing) addTo(ctx context.Context, credentials registry.Credentials, instance ...registry.RegisterOption) (undo func(context.Context) error, err error) {
	descriptor := p.config.descriptor()
	key, err := descriptor.ConnectionKey()
	if err != nil {
		return nil, err
	}
	before, found := registry.Connection{}, false
	if len(instance) == 0 {
		switch before, err = p.store.Connection(ctx, key); {
		case err == nil:
			found = true
			if _, err := p.store.Credentials(ctx, key); !errors.Is(err, registry.ErrNotLoggedIn) {
				if err == nil || errors.Is(err, registry.ErrDamaged) {
					err = registry.ErrChanged
				}
				return nil, err
			}
		case !errors.Is(err, registry.ErrNotFound):
			return nil, err
		}
	}
	if p.connection, err = p.store.Register(ctx, descriptor, instance...); err != nil {
		return nil, err
	}
	undo = func(ctx context.Context) error {
		switch err := p.store.DeleteSession(ctx, p.connection.Key, credentials.SessionID); {
		case errors.Is(err, registry.ErrChanged):
			return nil // the login of another process, which keeps the connection
		case err != nil:
			return err
		case !found:
			return p.store.Remove(ctx, p.connection.Key)
		}
		_, err := p.store.Register(ctx, before.Descriptor(), p.named(before.Alias)...)
		return err
	}
	err = p.store.AddCredentials(ctx, p.connection.Key, credentials)
	switch {
	case errors.Is(err, registry.ErrNotSynced): // it is saved
		err = nil
	case errors.Is(err, registry.ErrChanged):
		return nil, err
	}
	if err == nil && p.alias != "" {
		var named registry.Connection
		if named, err = p.store.Register(ctx, descriptor, p.named(p.alias, instance...)...); err == nil {
			p.connection = named
		}
	}
	return undo, err
}

// named gives options with the alias of the login, or without one where the connection has
// that alias already.
func (p *placing) named(alias string, options ...registry.RegisterOption) []registry.RegisterOption {
	if p.alias == "" {
		return options
	}
	return append(options, registry.WithAlias(alias))
}

// takeOver saves a login in place of another one. undo restores the other one. No refresh of
// the other login can run in between.
func (p *placing) takeOver(ctx context.Context, credentials registry.Credentials) (undo func(context.Context) error, err error) {
	const login = feedback.OperationLogin
	connection, err := p.store.Connection(ctx, p.replace)
	switch {
	case err != nil:
		return nil, storeError(ctx, login, err)
	case !p.isFor(connection):
		return nil, failure{operation: login, event: changed}.build()
	}
	var instance []registry.RegisterOption
	if connection.InstanceID != "" {
		instance = append(instance, registry.WithInstance(connection.InstanceID))
	}
	var old registry.Credentials
	err = p.store.UpdateCredentials(ctx, connection.Key, func(_ context.Context, current registry.Credentials) (registry.Credentials, error) {
		old = current
		return credentials, nil
	})
	back := func(ctx context.Context) error { // a login that was taken the place of
		return p.store.UpdateCredentials(ctx, connection.Key, func(_ context.Context, current registry.Credentials) (registry.Credentials, error) {
			if current.SessionID != credentials.SessionID {
				return current, nil
			}
			return old, nil
		})
	}
	switch {
	case err == nil, errors.Is(err, registry.ErrNotSynced):
		p.replaced = &old
	case errors.Is(err, registry.ErrNotLoggedIn):
		err = p.store.AddCredentials(ctx, connection.Key, credentials)
		back = func(ctx context.Context) error {
			return p.store.DeleteSession(ctx, connection.Key, credentials.SessionID)
		}
	case errors.Is(err, registry.ErrDamaged):
		err = p.store.SaveCredentials(ctx, connection.Key, credentials)
		p.replaced = &registry.Credentials{}
		back = func(ctx context.Context) error {
			return p.store.DeleteSession(ctx, connection.Key, credentials.SessionID)
		}
	}
	if err != nil && !errors.Is(err, registry.ErrNotSynced) { // which is saved
		return nil, storeError(ctx, login, err)
	}
	p.connection, err = p.store.Register(ctx, p.config.descriptor(), p.named(p.alias, instance...)...)
	if err != nil {
		p.connection = connection
		return back, storeError(ctx, login, err)
	}
	return func(ctx context.Context) error {
		_, err := p.store.Register(ctx, connection.Descriptor(), p.named(connection.Alias, instance...)...)
		return errors.Join(back(ctx), err)
	}, nil
}

// LogOutOptions are the options of [LogOut].
type LogOutOptions struct {
	// Forget deletes the login even where the Hub cannot be reached. The session then
	// lives on at the Hub until its end, and the error says so.
	Forget bool
	// Client are the options of the client that asks the Hub; see [New].
	Client []agentclient.Option
}

// LogOut ends the login of a connection, at the Hub first and then in the store. The
// connection stays. Operations that were sent under the login cannot be inspected afterwards.
// LogOut returns nil for a connection without a login.
//
// Where the Hub cannot be reached, the login stays and the error matches
// [ErrSessionLivesOn]. With Forget the login is deleted, and LogOut still returns that error.
// LogOut does not delete a login that has replaced this one in the meantime. Every error is a
// [*feedback.Error] of the operation logout.
func LogOut(ctx context.Context, store Store, key string, options LogOutOptions) error {
	const logout = feedback.OperationLogout
	switch {
	case ctx == nil:
		return invalid(logout, "The context is nil.")
	case nilcheck.IsNil(store):
		return invalid(logout, "The store is missing.")
	}
	connection, err := store.Connection(ctx, key)
	if err != nil {
		return storeError(ctx, logout, err)
	}
	client, err := New(Config{HubURL: connection.HubURL, ClientAppID: connection.ClientAppID, Workspace: connection.Workspace, AllowInsecureHTTP: connection.AllowInsecureHTTP}, options.Client...)
	if err != nil {
		return relabel(err, logout)
	}
	defer client.CloseIdleConnections()
	var session string
	var revoked error
	// The update keeps others from refreshing the session meanwhile. Otherwise the
	// Hub could confirm a token that was just replaced, and the session would live
	// on. It takes no longer than a refresh, so that others do not wait longer.
	err = store.UpdateCredentials(ctx, key, func(ctx context.Context, current registry.Credentials) (registry.Credentials, error) {
		ctx, cancel := context.WithTimeout(ctx, client.settings.Timeout)
		defer cancel()
		session = current.SessionID
		revoked = client.Revoke(ctx, current)
		return current, nil
	})
	switch {
	case errors.Is(err, registry.ErrNotLoggedIn):
		return nil
	case err != nil:
		known := storeError(ctx, logout, err)
		if !options.Forget || ctx.Err() != nil {
			return known
		}
		if err := store.DeleteCredentials(ctx, key); err != nil {
			return storeError(ctx, logout, err)
		}
		return with(known, "The login was deleted without a word to the Hub: its session lives on there until it ends by itself.", ErrSessionLivesOn)
	case revoked != nil && !options.Forget:
		return with(revoked, "The login stays in the store: try again, or forget it.")
	case revoked != nil && ctx.Err() != nil:
		return revoked
	}
	if err := store.DeleteSession(ctx, key, session); err != nil && !errors.Is(err, registry.ErrChanged) {
		known := storeError(ctx, logout, err)
		if revoked == nil {
			known = with(known, "The session was ended at the Hub; only the stored login is left, and is of no use.")
		}
		return known
	}
	if revoked != nil {
		return with(revoked, "The login was deleted here; nobody can end its session but the business system, and it ends by itself 30 days after the login.")
	}
	return nil
}

// relabel gives a copy of an error of this package with another operation.
func relabel(err error, operation feedback.Operation) error {
	known, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return err
	}
	account := known.Feedback
	account.Operation = operation
	changed := failures.Build(account, known.Unwrap()...)
	changed.StatusCode, changed.RetryAfter = known.StatusCode, known.RetryAfter
	return changed
}
