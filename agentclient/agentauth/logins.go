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

// LogInOptions say how [LogIn] goes about it.
type LogInOptions struct {
	// Show is called once, before anybody is waited for: it has to show the
	// person the address of the prompt. It may open that in a browser, and must
	// not wait for the person. An error of it ends the login. Required.
	Show func(ctx context.Context, prompt Prompt) error
	// Alias names the connection for people; see registry.WithAlias. Empty for a
	// connection without a name, and to leave the one that it has.
	Alias string
	// Replace is the key of a connection whose login this one takes the place of.
	// The session of that login ends: operations that were sent under it can be
	// asked about no longer. The prompt says how long they could have been. Empty
	// means that no login is replaced.
	Replace string
	// Callback says more about the port that the browser comes back to.
	Callback []BeginOption
	// Client are the options of the client that asks the Hub; see [New].
	Client []agentclient.Option
}

// Prompt is what a person has to know of a login that waits for them.
type Prompt struct {
	// URL is the address at which the person decides. It is to be shown before
	// anything tries to open it, and to be kept out of logs.
	URL string
	// ExpiresAt is until when they can decide.
	ExpiresAt time.Time
	// CallbackAddress is where the browser comes back to, as host and port.
	CallbackAddress string
	// Replaces is the login whose place this one takes; nil for none.
	Replaces *Replaced
	// Paste takes the address that a browser on another machine ended at; see
	// [Login.Paste]. It may be called from any goroutine until LogIn returns.
	Paste func(ctx context.Context, address string) error
}

// Replaced is a login whose place a new one takes.
type Replaced struct {
	// Connection is the one that both logins are of.
	Connection registry.Connection
	// SessionID is its session; "" where what is stored is damaged.
	SessionID string
	// EndsAt is until when operations that were sent under it could be asked
	// about. It ends with the replacement.
	EndsAt time.Time
}

// Result is a login that was made and saved.
type Result struct {
	// Connection is the one that it was saved under. It is the current one now.
	Connection registry.Connection
	// Session is what the Hub says of it.
	Session Session
	// Replaced is the login whose place it took; nil for none.
	Replaced *Replaced
	// ReplacedLivesOn says that the replaced session could not be ended at the
	// Hub: nobody holds it any more, and it ends by itself at Replaced.EndsAt.
	ReplacedLivesOn bool
}

// LogIn has a person log in and saves the login in the store, as the current
// connection.
//
// A connection that has a login keeps it: the new one is saved beside it, as a
// named instance, because operations can be asked about only under the session
// that they were sent under. It stays until the host removes it. See
// [LogInOptions] for how to replace it instead.
//
// Nothing of the store is held while the person decides, and nothing is changed
// in it before the Hub has confirmed the session. After an error the store is as
// it was, and no session is left at the Hub; where either could not be done the
// error says so ([ErrSessionLivesOn]). Every error is a [*feedback.Error] of the
// operation login; see [Login.Wait].
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
	replaces, err := p.look(ctx)
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

// placing finds the place of a new login in a store, and takes it.
type placing struct {
	store   Store
	config  Config
	alias   string
	replace string // the key of a connection; "" for none

	connection registry.Connection   // the place, once taken
	replaced   *registry.Credentials // what was there; nil for nothing, empty for something damaged
}

// look refuses before a person is bothered what would be refused afterwards, and
// says what is replaced.
func (p *placing) look(ctx context.Context) (*Replaced, error) {
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

// isFor reports whether a connection is for what is logged in to.
func (p *placing) isFor(connection registry.Connection) bool {
	return connection.HubURL == p.config.HubURL && connection.ClientAppID == p.config.ClientAppID && connection.Workspace == p.config.Workspace
}

// isFree reports whether a connection is the plain one of what is logged in to
// and has no login.
func (p *placing) isFree(ctx context.Context, connection registry.Connection) bool {
	if !p.isFor(connection) || connection.InstanceID != "" {
		return false
	}
	_, err := p.store.Credentials(ctx, connection.Key)
	return errors.Is(err, registry.ErrNotLoggedIn)
}

// keep saves a login: in the place of another one where that is wanted, else
// under the plain connection where that has none, else under a named instance.
// After an error everything is as it was.
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

// add saves a login where there is none, and gives what takes it away again.
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

// addTo saves a login under the plain connection, or under the instance of an
// option. Where that has a login, that stays as it is and the error matches
// ErrChanged. The name comes last: until then the place may become that of
// somebody who logs in at the same moment.
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
			return nil // somebody else's login, which stays with its connection
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

// named gives the options that give a connection this name, where the name is to
// change at all.
func (p *placing) named(alias string, options ...registry.RegisterOption) []registry.RegisterOption {
	if p.alias == "" {
		return options
	}
	return append(options, registry.WithAlias(alias))
}

// takeOver saves a login in place of another one, and gives what brings that one
// back. No refresh of it can run in between.
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

// LogOutOptions say how [LogOut] goes about it.
type LogOutOptions struct {
	// Forget has the login deleted even where the Hub cannot be told. The session
	// lives on there until its end, and the error says so.
	Forget bool
	// Client are the options of the client that asks the Hub; see [New].
	Client []agentclient.Option
}

// LogOut ends the login of a connection: at the Hub first, and then in the
// store. The connection stays. Operations that were sent under it cannot be
// asked about afterwards. A connection without a login is no error.
//
// Where the Hub cannot be told, the login stays and the error matches
// [ErrSessionLivesOn], unless it is to be forgotten: then it is deleted, and
// LogOut returns that error all the same. A login that took its place in the
// meantime stays. Every error is a [*feedback.Error] of the operation logout.
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
	// Nobody refreshes the session meanwhile: the Hub would confirm a token that
	// has been replaced, and the session would live on. Who wants to is not kept
	// waiting for longer than a refresh takes.
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

// relabel gives an error of this package as one of another operation.
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
