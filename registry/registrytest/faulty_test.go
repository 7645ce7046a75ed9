package registrytest_test

import (
	"context"
	"errors"
	"time"

	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/registrytest"
)

// A fault is what is wrong with a faulty store.
type fault string

const (
	none                    fault = ""
	noneOfReader            fault = "has no fault, and reads both at once"
	updatesTwice            fault = "runs update twice"
	updatesAgainWhenChanged fault = "runs update again when it lost to a newer login"
	updatesAgainOnError     fault = "runs update again after its error"
	neverUpdates            fault = "does not run update"
	losesRotation           fault = "does not save"
	losesRefreshToken       fault = "saves the access token only"
	overwritesNewerLogin    fault = "overwrites a newer login"
	comparesTokensOnly      fault = "takes a login for unchanged when its access token is"
	comparesAllButSession   fault = "takes a login for unchanged when its tokens are"
	hidesChange             fault = "does not say that a newer login won"
	resurrects              fault = "saves after a removal"
	savesAnything           fault = "saves what is not valid"
	savesEmptyToken         fault = "saves an empty token"
	savesForOtherHub        fault = "saves credentials of another Hub"
	loginSavesAnything      fault = "takes a login that is not valid"
	refusesUnchanged        fault = "calls an update that changes nothing an error"
	savesUnchanged          fault = "saves over a newer login when update changed nothing"
	locksWholeStore         fault = "has one lock for all keys"
	readsWait               fault = "lets reads of the key wait for its update"
	allReadsWait            fault = "lets reads wait for any update"
	loginWaits              fault = "lets a login wait for an update of the key"
	registerWaits           fault = "lets a registration wait for any update"
	ignoresContext          fault = "waits on when the context has ended"
	mistakesContext         fault = "calls a passed deadline a cancellation"
	beginsAfterContext      fault = "runs update when the context has ended before"
	losesAfterContext       fault = "does not save when the context has ended"
	reportsContext          fault = "saves, and returns the error of the context"
	swapsContext            fault = "gives update a context of its own"
	swallowsError           fault = "returns no error when update does"
	flattensError           fault = "returns the text of update's error only"
	savesAfterError         fault = "saves in spite of update's error"
	swallowsPanic           fault = "recovers from a panic in update"
	keepsLockAfterPanic     fault = "keeps the lock after a panic or Goexit"
	savesAfterPanic         fault = "saves after a panic or Goexit"
	excludesNobody          fault = "does not exclude"
	excludesInProcessOnly   fault = "excludes within one handle"
	readsBeforeLock         fault = "reads before it has the lock"
	cachesLogins            fault = "remembers a login that another handle replaced"
	mixesLogins             fault = "gives the login of another connection"
	mixesConnections        fault = "gives another connection"
	losesRegistrationTime   fault = "forgets when a connection was registered"
	cutsTimes               fault = "keeps times to the second"
	readsTimesAsLocal       fault = "loses the zone of times"
	unknownIsNotLoggedIn    fault = "calls an unknown key not logged in"
	unknownIsNil            fault = "has no error for an unknown connection"
	notLoggedInIsUnknown    fault = "calls a connection without a login unknown"
	updatesWithoutLogin     fault = "runs update without a login"
	removalKeepsLogin       fault = "keeps the login of a removed connection"
	logoutRemoves           fault = "removes a connection on logout"
	logoutRegisters         fault = "makes an empty row of an unknown key on logout"
	registerLogsOut         fault = "loses the login of a connection that is registered again"
	servesAnyHub            fault = "gives credentials of another Hub"
	servesAnyClient         fault = "gives credentials of another client app"
	servesAnyWorkspace      fault = "gives credentials of another workspace"
	foreignIsNotLoggedIn    fault = "calls credentials of another connection no login"
	foreignUpdates          fault = "runs update with credentials of another connection"
	answersBesideError      fault = "gives credentials beside an error"
	connectionBesideError   fault = "gives a connection beside an error"
	answersBesideContext    fault = "gives credentials beside the error of a context"
	connectionBesideContext fault = "gives a connection beside the error of a context"
	comparesThenWrites      fault = "compares and writes in two steps"
	waitersHoldConnections  fault = "lets those who wait for a key hold the connections that the holder needs"
	waitersHoldEverybody    fault = "lets those who wait for a key hold the connections that other keys need"

	// Of a store that is a registry.LoginReader too.
	readsOldLogin       fault = "reads a login that was replaced, with its connection"
	readsOldConnection  fault = "reads another connection with a login"
	readsBothToServeAny fault = "reads credentials of another Hub with a connection"
	readsBothBesideErr  fault = "reads a connection beside the error of its login"
	readsBothBesideCtx  fault = "reads a connection beside the error of a context"
	readsBothWait       fault = "lets reads of both wait for the update of the key"
)

// faulty is a handle on a store that is right but for one fault. It waits on
// channels only, so that it can be put in a bubble of testing/synctest.
type faulty struct {
	fault fault
	*state
	updates *locks
	seen    map[string]registry.Credentials
	// pool are the connections of this handle, where it has a bounded number.
	pool mutex
}

// state is what the handles of a store share.
type state struct {
	mu          mutex
	connections map[string]registry.Connection
	logins      map[string]registry.Credentials
	last        registry.Credentials
}

type mutex chan struct{}

func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		if err := ctx.Err(); err != nil {
			m.unlock()
			return err
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m mutex) unlock() { <-m }

type locks struct {
	mu   mutex
	keys map[string]mutex
}

func newLocks() *locks { return &locks{make(mutex, 1), map[string]mutex{}} }

func (l *locks) of(key string) mutex {
	l.mu <- struct{}{}
	defer l.mu.unlock()
	if l.keys[key] == nil {
		l.keys[key] = make(mutex, 1)
	}
	return l.keys[key]
}

func newFaulty(f fault) (first, second *faulty) {
	shared := &state{make(mutex, 1), map[string]registry.Connection{}, map[string]registry.Credentials{}, registry.Credentials{}}
	const connections = 8
	first = &faulty{f, shared, newLocks(), map[string]registry.Credentials{}, make(mutex, connections)}
	second = &faulty{f, shared, first.updates, map[string]registry.Credentials{}, make(mutex, connections)}
	if f == excludesInProcessOnly {
		second.updates = newLocks()
	}
	return first, second
}

// wait waits for updates of a key and lets them go on.
func (s *faulty) wait(ctx context.Context, key string) error {
	lock := s.updates.of(key)
	if err := lock.lock(ctx); err != nil {
		return err
	}
	lock.unlock()
	return nil
}

func (s *faulty) Register(ctx context.Context, d registry.Descriptor, _ ...registry.RegisterOption) (registry.Connection, error) {
	if s.fault == registerWaits {
		if err := s.wait(ctx, "any"); err != nil {
			return registry.Connection{}, err
		}
	}
	key, err := d.ConnectionKey()
	if err != nil {
		return registry.Connection{}, err
	}
	if err := s.mu.lock(ctx); err != nil {
		return registry.Connection{}, err
	}
	defer s.mu.unlock()
	if c, ok := s.connections[key]; ok {
		if s.fault == registerLogsOut {
			delete(s.logins, key)
		}
		return c, nil
	}
	now := time.Now().UTC()
	c := registry.Connection{
		Key: key, HubURL: d.HubURL, ClientAppID: d.ClientAppID, Workspace: d.Workspace, AllowInsecureHTTP: d.AllowInsecureHTTP,
		CreatedAt: now, UpdatedAt: now,
	}
	s.connections[key] = c
	return c, nil
}

func (s *faulty) SaveCredentials(ctx context.Context, key string, c registry.Credentials) error {
	if s.fault == loginWaits {
		if err := s.wait(ctx, key); err != nil {
			return err
		}
	}
	if err := s.mu.lock(ctx); err != nil {
		return err
	}
	defer s.mu.unlock()
	connection, ok := s.connections[key]
	if !ok {
		return registry.ErrNotFound
	}
	if err := connection.Check(c); err != nil && s.fault != loginSavesAnything {
		return err
	}
	s.save(key, c)
	return nil
}

func (s *faulty) save(key string, c registry.Credentials) {
	switch s.fault {
	case cutsTimes:
		c.AccessExpiresAt = c.AccessExpiresAt.Truncate(time.Second)
	case readsTimesAsLocal:
		t := c.RefreshExpiresAt
		c.RefreshExpiresAt = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	}
	s.logins[key], s.last = c, c
}

func (s *faulty) DeleteCredentials(ctx context.Context, key string) error {
	if err := s.mu.lock(ctx); err != nil {
		return err
	}
	defer s.mu.unlock()
	delete(s.logins, key)
	_, ok := s.connections[key]
	switch {
	case s.fault == logoutRemoves:
		delete(s.connections, key)
	case s.fault == logoutRegisters && !ok:
		s.connections[key] = registry.Connection{}
	}
	return nil
}

// Plant puts credentials where no check of the store sees them.
func (s *faulty) Plant(ctx context.Context, key string, c registry.Credentials) error {
	if err := s.mu.lock(ctx); err != nil {
		return err
	}
	defer s.mu.unlock()
	s.save(key, c)
	return nil
}

func (s *faulty) Remove(ctx context.Context, key string) error {
	if err := s.mu.lock(ctx); err != nil {
		return err
	}
	defer s.mu.unlock()
	if s.fault != removalKeepsLogin {
		delete(s.logins, key)
	}
	delete(s.connections, key)
	return nil
}

// connect takes a connection of this handle, where there is a bounded number.
func (s *faulty) connect(ctx context.Context) (disconnect func(), err error) {
	if s.fault != waitersHoldConnections && s.fault != waitersHoldEverybody {
		return func() {}, nil
	}
	return s.pool.unlock, s.pool.lock(ctx)
}

func (s *faulty) Connection(ctx context.Context, key string) (registry.Connection, error) {
	if err := s.waitToRead(ctx, key); err != nil {
		return registry.Connection{}, err
	}
	disconnect, err := s.connect(ctx)
	if err != nil {
		return registry.Connection{}, err
	}
	defer disconnect()
	if err := s.mu.lock(ctx); err != nil {
		if s.fault == connectionBesideContext {
			return s.connections[key], err
		}
		return registry.Connection{}, err
	}
	defer s.mu.unlock()
	c, ok := s.connections[key]
	switch {
	case !ok && s.fault == connectionBesideError:
		return registry.Connection{Key: key}, registry.ErrNotFound
	case !ok && s.fault == unknownIsNil:
		return registry.Connection{}, nil
	case !ok:
		return registry.Connection{}, registry.ErrNotFound
	case s.fault == mixesConnections:
		for _, other := range s.connections {
			if other.Key > c.Key {
				c = other
			}
		}
	case s.fault == losesRegistrationTime:
		c.CreatedAt = time.Time{}
	}
	return c, nil
}

func (s *faulty) waitToRead(ctx context.Context, key string) error {
	switch s.fault {
	case readsWait:
		return s.wait(ctx, key)
	case allReadsWait:
		return s.wait(ctx, "any")
	}
	return nil
}

func (s *faulty) Credentials(ctx context.Context, key string) (registry.Credentials, error) {
	if err := s.waitToRead(ctx, key); err != nil {
		return registry.Credentials{}, err
	}
	disconnect, err := s.connect(ctx)
	if err != nil {
		return registry.Credentials{}, err
	}
	defer disconnect()
	if err := s.mu.lock(ctx); err != nil {
		if s.fault == answersBesideContext {
			return s.logins[key], err
		}
		return registry.Credentials{}, err
	}
	defer s.mu.unlock()
	if c, ok := s.seen[key]; ok && s.fault == cachesLogins {
		return c, nil
	}
	c, err := s.login(key)
	if err == nil {
		s.seen[key] = c
	}
	switch {
	case s.fault == mixesLogins && err == nil:
		return s.last, nil
	case s.fault == answersBesideError && err != nil:
		return s.last, err
	}
	return c, err
}

// login is what is stored; s.mu is held.
func (s *faulty) login(key string) (registry.Credentials, error) {
	connection, ok := s.connections[key]
	if !ok {
		if s.fault == unknownIsNotLoggedIn {
			return registry.Credentials{}, registry.ErrNotLoggedIn
		}
		return registry.Credentials{}, registry.ErrNotFound
	}
	c, ok := s.logins[key]
	if !ok {
		if s.fault == notLoggedInIsUnknown {
			return registry.Credentials{}, registry.ErrNotFound
		}
		return registry.Credentials{}, registry.ErrNotLoggedIn
	}
	of := c
	switch s.fault {
	case servesAnyHub:
		of.HubURL = connection.HubURL
	case servesAnyClient:
		of.ClientAppID = connection.ClientAppID
	case servesAnyWorkspace:
		of.Workspace = connection.Workspace
	case savesAnything, savesEmptyToken, savesForOtherHub, loginSavesAnything:
		return c, nil // these must be caught without a check of what is read
	}
	if connection.Check(of) != nil {
		if s.fault == foreignIsNotLoggedIn {
			return registry.Credentials{}, registry.ErrNotLoggedIn
		}
		return registry.Credentials{}, registry.ErrDamaged
	}
	return c, nil
}

func (s *faulty) current(key string) (registry.Credentials, error) {
	if err := s.mu.lock(context.Background()); err != nil {
		return registry.Credentials{}, err
	}
	defer s.mu.unlock()
	c, err := s.login(key)
	if s.fault == foreignUpdates && errors.Is(err, registry.ErrDamaged) {
		return s.logins[key], nil
	}
	return c, err
}

func (s *faulty) UpdateCredentials(ctx context.Context, key string, update func(context.Context, registry.Credentials) (registry.Credentials, error)) (err error) {
	early, earlyErr := s.current(key)
	lock := s.updates.of(key)
	switch s.fault {
	case locksWholeStore:
		lock = s.updates.of("all")
	case excludesNobody:
		lock = make(mutex, 1)
	}
	waiting := ctx
	if s.fault == ignoresContext || s.fault == beginsAfterContext && ctx.Err() != nil {
		waiting = context.Background()
	}
	if s.fault == waitersHoldConnections {
		// One for the whole update; the save takes one more.
		disconnect, err := s.connect(ctx)
		if err != nil {
			return err
		}
		defer disconnect()
	}
	if s.fault == waitersHoldEverybody {
		// One while it waits, and none while update runs.
		disconnect, err := s.connect(ctx)
		if err != nil {
			return err
		}
		if err := lock.lock(waiting); err != nil {
			disconnect()
			return err
		}
		disconnect()
		lock.unlock()
	}
	if err := lock.lock(waiting); err != nil {
		if s.fault == mistakesContext {
			return context.Canceled
		}
		return err
	}
	finished := false
	defer func() {
		if finished || s.fault != keepsLockAfterPanic {
			lock.unlock()
		}
	}()
	if s.fault == registerWaits || s.fault == allReadsWait {
		whole := s.updates.of("any")
		whole <- struct{}{}
		defer whole.unlock()
	}
	before, err := s.current(key)
	if s.fault == readsBeforeLock {
		before, err = early, earlyErr
	}
	if err != nil && (s.fault != updatesWithoutLogin || !errors.Is(err, registry.ErrNotLoggedIn)) {
		return err
	}
	if s.fault == neverUpdates {
		return nil
	}
	if s.fault == swallowsPanic {
		defer func() { _ = recover() }()
	}
	given := ctx
	if s.fault == swapsContext {
		given = context.Background()
	}
	after := before
	func() {
		defer func() {
			if !finished && s.fault == savesAfterPanic {
				after.AccessToken = registry.NewSecret("synthetic-half-done")
				s.save(key, after)
			}
		}()
		after, err = update(given, before)
		finished = true
	}()
	if s.fault == updatesTwice || s.fault == updatesAgainOnError && err != nil {
		after, err = update(given, before)
	}
	switch {
	case err == nil:
	case s.fault == savesAfterError:
		s.save(key, after)
		return err
	case s.fault == swallowsError:
		return nil
	case s.fault == flattensError:
		return errors.New(err.Error())
	default:
		return err
	}
	return s.finish(ctx, key, given, before, after, update)
}

func (s *faulty) finish(ctx context.Context, key string, given context.Context, before, after registry.Credentials, update func(context.Context, registry.Credentials) (registry.Credentials, error)) error {
	if after.Equal(before) {
		switch s.fault {
		case refusesUnchanged:
			return registry.ErrChanged
		case savesUnchanged:
			s.save(key, after)
		}
		return nil
	}
	if s.fault == losesAfterContext && ctx.Err() != nil {
		return ctx.Err()
	}
	disconnect, err := s.connect(context.Background())
	if err != nil {
		return err
	}
	defer disconnect()
	if err := s.mu.lock(context.Background()); err != nil {
		return err
	}
	defer s.mu.unlock()
	now, err := s.login(key)
	if s.fault == comparesThenWrites {
		s.mu.unlock()
		time.Sleep(time.Millisecond) // the way to a database and back
		_ = s.mu.lock(context.Background())
	}
	changed := err != nil || !now.Equal(before)
	switch {
	case s.fault == overwritesNewerLogin && err == nil, s.fault == resurrects && err != nil:
		changed = false
	case s.fault == comparesTokensOnly && err == nil:
		changed = now.AccessToken != before.AccessToken
	case s.fault == comparesAllButSession && err == nil:
		now.SessionID = before.SessionID
		changed = !now.Equal(before)
	}
	if changed {
		switch s.fault {
		case updatesAgainWhenChanged:
			_, _ = update(given, now)
		case hidesChange:
			return nil
		}
		return registry.ErrChanged
	}
	checked := after
	switch s.fault {
	case savesEmptyToken:
		if after.AccessToken == (registry.Secret{}) {
			checked.AccessToken = before.AccessToken
		}
	case savesForOtherHub:
		checked.HubURL = before.HubURL
	case losesRefreshToken:
		after.RefreshToken = before.RefreshToken
	}
	connection := s.connections[key]
	if s.fault == resurrects {
		connection = registry.Connection{HubURL: before.HubURL, ClientAppID: before.ClientAppID, Workspace: before.Workspace}
	}
	if err := connection.Check(checked); err != nil && s.fault != savesAnything {
		return err
	}
	if s.fault != losesRotation {
		s.save(key, after)
	}
	if s.fault == reportsContext {
		return ctx.Err()
	}
	return nil
}

// faultyReader is a store that reads a connection and its login at once.
type faultyReader struct{ *faulty }

func (s faultyReader) ConnectionCredentials(ctx context.Context, key string) (registry.Connection, registry.Credentials, error) {
	if s.fault == readsBothWait {
		if err := s.wait(ctx, key); err != nil {
			return registry.Connection{}, registry.Credentials{}, err
		}
	}
	if err := s.mu.lock(ctx); err != nil {
		if s.fault == readsBothBesideCtx {
			return s.connections[key], registry.Credentials{}, err
		}
		return registry.Connection{}, registry.Credentials{}, err
	}
	defer s.mu.unlock()
	connection := s.connections[key]
	credentials, err := s.login(key)
	switch {
	case s.fault == readsBothToServeAny && errors.Is(err, registry.ErrDamaged):
		return connection, s.logins[key], nil
	case s.fault == readsBothBesideErr && err != nil:
		return connection, registry.Credentials{}, err
	case err != nil:
		return registry.Connection{}, registry.Credentials{}, err
	}
	switch s.fault {
	case readsOldLogin:
		if old, ok := s.seen["both of "+key]; ok {
			return connection, old, nil
		}
		s.seen["both of "+key] = credentials
	case readsOldConnection:
		connection.UpdatedAt = time.Time{}
	}
	return connection, credentials, nil
}

// handles gives the two handles of a store as the suite gets them.
func handles(f fault) (first, second registrytest.Registry, plant func(context.Context, string, registry.Credentials) error) {
	one, other := newFaulty(f)
	switch f {
	case readsOldLogin, readsOldConnection, readsBothToServeAny, readsBothBesideErr, readsBothBesideCtx, readsBothWait, noneOfReader:
		return faultyReader{one}, faultyReader{other}, one.Plant
	}
	return one, other, one.Plant
}
