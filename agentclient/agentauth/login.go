package agentauth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/await"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/grant"
	"github.com/bailinghub/bailinghub-go/internal/identifier"
	"github.com/bailinghub/bailinghub-go/internal/strictjson"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	defaultCallbackPath = "/callback"
	// maxCallbackPath is the greatest length of the path of a callback. The whole
	// address then stays far below the 2,048 bytes that the Hub accepts.
	maxCallbackPath = 512
	// maxAddress is the greatest length of the address to log in at.
	maxAddress = 4096
	// maxRequestTime is the longest time that a Hub may give a person, in
	// seconds. It gives 600.
	maxRequestTime = 3600
)

// BeginOption is an option for the listener of a login. The functions of this package whose
// names begin with With make one. A nil option is an invalid request.
type BeginOption func(*beginSettings) error

type beginSettings struct {
	port   int
	path   string
	ipv6   bool
	listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// WithCallbackPort makes the login listen at this port, 1 to 65535, for a browser on another
// machine. Forward the port under the same number, for example with ssh -L. Without this
// option, or with zero, the login listens at any free port.
func WithCallbackPort(port int) BeginOption {
	return func(s *beginSettings) error {
		if port < 0 || port > 65535 {
			return invalid(feedback.OperationLogin, "WithCallbackPort: the port must be 0 to 65535.")
		}
		s.port = port
		return nil
	}
}

var callbackPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// WithCallbackPath makes this the path of the callback, instead of "/callback". It consists
// of segments of letters, digits and . _ ~ -, and has at most 512 bytes.
func WithCallbackPath(path string) BeginOption {
	return func(s *beginSettings) error {
		if len(path) > maxCallbackPath || !callbackPath.MatchString(path) ||
			slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool { return segment == "." || segment == ".." }) {
			return invalid(feedback.OperationLogin, "WithCallbackPath: the path must be segments of letters, digits and . _ ~ -, each after a slash, and at most 512 bytes.")
		}
		s.path = path
		return nil
	}
}

// WithIPv6Callback makes the login listen at ::1 instead of 127.0.0.1.
func WithIPv6Callback() BeginOption {
	return func(s *beginSettings) error {
		s.ipv6 = true
		return nil
	}
}

// Login is a login that has begun: a person has to open [Login.URL] and approve or refuse it
// there. The caller must end it with [Login.Wait] or [Login.Close]. It is safe for concurrent
// use, and printing it shows no secret.
type Login struct {
	client    *Client
	url       registry.Secret
	state     registry.Secret
	verifier  registry.Secret
	redirect  string
	expiresAt time.Time
	callback  *callback
	arrived   chan arrival  // gets the one callback of the login
	gone      chan struct{} // closed by Close
	known     chan struct{} // closed when outcome is set
	outcome   error         // the error of Wait

	closing, ending sync.Once

	mu sync.Mutex
	// received says that the callback of this login has come, waited that Wait was
	// called, and over that the callback accepts no more requests.
	received, waited, over bool
}

// Begin opens a port of this machine for the callback, and asks the Hub to begin a login. It
// does not wait for the person: show [Login.URL] and call [Login.Wait].
//
// Every error is a [*feedback.Error] of the operation login. After an error nothing is left
// open.
func (c *Client) Begin(ctx context.Context, opts ...BeginOption) (*Login, error) {
	const login = feedback.OperationLogin
	switch {
	case ctx == nil:
		return nil, invalid(login, "The context is nil.")
	case c == nil || c.hub == nil:
		return nil, invalid(login, "The client was not made by New.")
	}
	s := beginSettings{path: defaultCallbackPath, listen: new(net.ListenConfig).Listen}
	for _, option := range opts {
		if option == nil {
			return nil, invalid(login, "An option is nil.")
		}
		if err := option(&s); err != nil {
			return nil, err
		}
	}
	listener, err := listen(ctx, s)
	if err != nil {
		return nil, err
	}
	l := &Login{
		client:   c,
		state:    registry.NewSecret(newState()),
		verifier: registry.NewSecret(oauth2.GenerateVerifier()),
		arrived:  make(chan arrival, 1),
		gone:     make(chan struct{}),
		known:    make(chan struct{}),
	}
	hosts := hostsOf(listener.Addr())
	l.redirect = "http://" + hosts[0] + s.path
	l.serve(listener, hosts, s.path)
	if err := l.start(ctx); err != nil {
		l.end(err)
		return nil, err
	}
	return l, nil
}

// newState gives 256 random bits.
func newState() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// hostsOf gives the values of the Host header that a browser may send to the listener: the
// address with its port, and also without it where that is the default port.
func hostsOf(address net.Addr) []string {
	hosts := []string{address.String()}
	if host, port, err := net.SplitHostPort(hosts[0]); err == nil && port == "80" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// listenError says why the port could not be opened.
func listenError(err error, address string, port int) (message string, number error) {
	code, ok := errors.AsType[syscall.Errno](err)
	switch {
	case ok && code == syscall.EADDRINUSE:
		return "Port " + strconv.Itoa(port) + " is taken by another program, perhaps by an earlier login that still waits. Stop that one, or choose another port.", code
	case ok && code == syscall.EACCES:
		return "This program may not listen at port " + strconv.Itoa(port) + ". Choose one above 1023.", code
	case ok:
		return "There is no listening at " + address + ": " + code.Error() + ".", code
	}
	return "There is no listening at " + address + ".", nil
}

// start asks the Hub to begin the login.
func (l *Login) start(ctx context.Context) error {
	c := l.client
	began := time.Now()
	answer, err := c.ask(ctx, feedback.OperationLogin, question{
		step: starting, method: http.MethodPost, path: boundary.AuthorizationsPath,
		good: http.StatusCreated, limit: answerLimit,
		body: map[string]any{
			"client_app_id":         c.config.ClientAppID,
			"redirect_uri":          l.redirect,
			"state":                 l.state.Reveal(),
			"requested_routes":      []string{c.config.Workspace},
			"device_label":          c.config.DeviceLabel,
			"code_challenge":        oauth2.S256ChallengeFromVerifier(l.verifier.Reveal()),
			"code_challenge_method": "S256",
		},
		// A request whose answer was lost leaves only an entry at the Hub that
		// expires, so it may be sent again. An answer of the Hub is final.
		again: func(answer *boundary.Answer) bool { return answer == nil },
	})
	if err != nil {
		return err
	}
	address, lifetime, ok := parseStarted(answer.Body)
	f := failure{operation: feedback.OperationLogin, step: starting, status: answer.Status}
	switch {
	case !ok:
		f.event = badAnswer
		return f.build()
	case !mayOpen(address):
		f.event = notChecked
		return f.build()
	}
	l.url, l.expiresAt = registry.NewSecret(address), began.Add(lifetime)
	return nil
}

// parseStarted reads the answer to the start of a login.
func parseStarted(body []byte) (address string, lifetime time.Duration, ok bool) {
	var wire struct {
		ID        string `json:"authorization_id"`
		URL       string `json:"authorization_url"`
		ExpiresIn int64  `json:"expires_in"`
	}
	if err := strictjson.Unmarshal(body, &wire, strictjson.DropUnknown); err != nil ||
		!identifier.UUID(wire.ID) || wire.URL == "" || wire.ExpiresIn < 1 || wire.ExpiresIn > maxRequestTime {
		return "", 0, false
	}
	return wire.URL, time.Duration(wire.ExpiresIn) * time.Second, true
}

// mayOpen reports whether an address from a Hub may be shown and opened in a browser. It is
// an https URL, or an http URL with a loopback address and a port. It has visible ASCII
// characters only, so that it is safe for a terminal and as an argument of a program.
func mayOpen(address string) bool {
	if len(address) > maxAddress {
		return false
	}
	for i := range len(address) {
		if c := address[i]; c <= ' ' || c > '~' || c == '\\' || c == '"' || c == '<' || c == '>' || c == '`' || c == '^' || c == '{' || c == '|' || c == '}' {
			return false
		}
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.User != nil || parsed.Opaque != "" || parsed.Hostname() == "" || strings.HasSuffix(parsed.Host, ":") {
		return false
	}
	switch parsed.Scheme {
	case "https":
		return true
	case "http":
		to, err := netip.ParseAddrPort(parsed.Host)
		return err == nil && to.Port() != 0 && (to.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || to.Addr() == netip.IPv6Loopback())
	}
	return false
}

// URL gives the address at which the person approves or refuses the login. Show it before
// you try to open it in a browser. Its query is a secret of this login: keep the URL out of
// logs.
func (l *Login) URL() string { return l.url.Reveal() }

// ExpiresAt gives the time until which the person can decide, by this machine's clock.
func (l *Login) ExpiresAt() time.Time { return l.expiresAt }

// CallbackAddress gives the host and port of the callback. Where the browser runs on another
// machine, this port has to be forwarded.
func (l *Login) CallbackAddress() string { return l.callback.hosts[0] }

// Wait waits for the person, gets the session from the Hub, and checks with the Hub that the
// session is for this client and this workspace. The caller has to save the credentials, or
// end the session with [Client.Revoke].
//
// Wait always ends the login, and can be called once. Every error is a [*feedback.Error] of
// the operation login. Its code is [feedback.CodeAccessDenied] where the person refused, and
// [feedback.CodeLoginExpired] where nobody decided until [Login.ExpiresAt]. errors.Is finds
// the error of ctx where that ended. Where the Hub has opened a session that cannot be used,
// Wait ends it at the Hub, even after the end of ctx, which may take five more seconds. The
// error says whether that worked, and matches [ErrSessionLivesOn] where it did not.
func (l *Login) Wait(ctx context.Context) (registry.Credentials, Session, error) {
	return l.wait(ctx, func(context.Context, registry.Credentials, Session) error { return nil })
}

// wait does what Wait does, and calls keep to save the credentials. Where keep fails, the
// login fails and its session is ended.
func (l *Login) wait(ctx context.Context, keep func(context.Context, registry.Credentials, Session) error) (registry.Credentials, Session, error) {
	const login = feedback.OperationLogin
	switch {
	case ctx == nil:
		return registry.Credentials{}, Session{}, invalid(login, "The context is nil.")
	case l == nil || l.callback == nil:
		return registry.Credentials{}, Session{}, invalid(login, "The login was not begun by Begin.")
	}
	l.mu.Lock()
	waited := l.waited
	l.waited = true
	l.mu.Unlock()
	if waited {
		return registry.Credentials{}, Session{}, invalid(login, "Wait was called already; it gives the credentials once.")
	}
	start := time.Now()
	outcome := error(failure{operation: login, event: closed}.build()) // stays where keep panics
	defer func() { l.end(outcome) }()
	credentials, session, outcome := l.complete(ctx, keep)
	l.client.log(ctx, login, start, outcome)
	if outcome != nil {
		return registry.Credentials{}, Session{}, outcome
	}
	return credentials, session, nil
}

// Close ends the login: it closes the port, and Wait returns. It is not needed after Wait,
// and may be called more than once. Where the person approves later, the browser finds
// nothing at the port, and the Hub opens no session.
func (l *Login) Close() error {
	if l == nil || l.callback == nil {
		return invalid(feedback.OperationLogin, "The login was not begun by Begin.")
	}
	l.closing.Do(func() { close(l.gone) })
	l.mu.Lock()
	waited := l.waited
	l.mu.Unlock()
	if waited {
		<-l.known // the running Wait ends the login
	}
	l.end(failure{operation: feedback.OperationLogin, event: closed}.build())
	return nil
}

// complete waits for the callback and does everything that follows.
func (l *Login) complete(ctx context.Context, keep func(context.Context, registry.Credentials, Session) error) (registry.Credentials, Session, error) {
	const login = feedback.OperationLogin
	fail := func(f failure) (registry.Credentials, Session, error) {
		return registry.Credentials{}, Session{}, f.build()
	}
	timer := time.NewTimer(time.Until(l.expiresAt))
	defer timer.Stop()
	var came arrival
	select {
	case <-ctx.Done():
		return fail(ended(ctx, login))
	case <-l.gone:
		return fail(failure{operation: login, event: closed})
	case <-timer.C:
		return fail(failure{operation: login, event: expired})
	case came = <-l.arrived:
	}
	switch {
	case came.denied:
		return fail(failure{operation: login, event: denied})
	case came.code == registry.Secret{}:
		return fail(failure{operation: login, event: noCode})
	}
	credentials, err := l.exchange(ctx, came.code)
	if err != nil {
		return registry.Credentials{}, Session{}, err
	}
	session, err := l.client.session(ctx, login, credentials.AccessToken.Reveal(), credentials.SessionID)
	if err == nil {
		err = keep(ctx, credentials, session)
	}
	if err != nil {
		return registry.Credentials{}, Session{}, l.client.giveUp(ctx, credentials.AccessToken.Reveal(), credentials.RefreshToken.Reveal(), err)
	}
	return credentials, session, nil
}

// exchange gets the session for a code.
//
// When the code has been sent, the Hub may open a session. From then on the exchange goes on
// for a while after the caller's context has ended, because only its answer has the tokens
// with which that session can be ended. The Hub accepts a code once, and a second request
// with it does nothing, so the request may be repeated.
func (l *Login) exchange(ctx context.Context, code registry.Secret) (registry.Credentials, error) {
	const login = feedback.OperationLogin
	c := l.client
	own, cancel := context.WithCancel(await.Detach(ctx))
	defer cancel()
	var sent, doubt atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !sent.Load() {
			cancel()
			return
		}
		timer := time.NewTimer(cleanupLimit)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-own.Done():
		}
	})()
	start := time.Now()
	answer, err := c.ask(own, login, question{
		step: exchanging, method: http.MethodPost, path: boundary.RefreshPath, limit: grant.Limit,
		body: map[string]string{
			"grant_type":    "authorization_code",
			"client_app_id": c.config.ClientAppID,
			"code":          code.Reveal(),
			"redirect_uri":  l.redirect,
			"code_verifier": l.verifier.Reveal(),
		},
		sending: func() { sent.Store(true) },
		again: func(answer *boundary.Answer) bool {
			if ctx.Err() != nil || !askAgain(answer) {
				return false
			}
			doubt.Store(doubt.Load() || answer == nil || !refuses(answer))
			return true
		},
	})
	if ctx.Err() != nil && err != nil {
		f := ended(ctx, login)
		f.step = exchanging
		err = f.build()
	}
	switch {
	case !sent.Load():
		return registry.Credentials{}, err
	case answer == nil:
		if doubt.Load() || !neverArrived(err) {
			err = livesOn(err)
		}
		return registry.Credentials{}, err
	case err != nil && answer.Status/100 != 2:
		if doubt.Load() || !refuses(answer) {
			err = livesOn(err)
		}
		return registry.Credentials{}, err
	}
	given, ok := grant.Grant{}, false
	if err == nil {
		given, ok = grant.Parse(answer.Body)
	}
	f := failure{operation: login, event: badAnswer, step: exchanging, status: answer.Status}
	switch {
	case err != nil: // a 200 with a bad body, or another 2xx
	case !ok:
		err = f.build()
	case given.ClientAppID != c.config.ClientAppID:
		f.event = otherSession
		err = f.build()
	case ctx.Err() != nil:
		e := ended(ctx, login)
		e.step = exchanging
		err = e.build()
	}
	if err != nil {
		access, refresh := grant.Tokens(answer.Body)
		return registry.Credentials{}, c.giveUp(ctx, access, refresh, err)
	}
	credentials := registry.Credentials{
		HubURL: c.config.HubURL, ClientAppID: c.config.ClientAppID, Workspace: c.config.Workspace, SessionID: given.SessionID,
		AccessToken: registry.NewSecret(given.AccessToken), RefreshToken: registry.NewSecret(given.RefreshToken),
	}
	credentials.AccessExpiresAt, credentials.RefreshExpiresAt = given.Expiries(start)
	return credentials, nil
}

// refuses reports whether an answer is the Hub's own refusal, after which there is no
// session. Any other answer may come from a proxy in front of the Hub, and does not tell what
// the Hub did.
func refuses(answer *boundary.Answer) bool {
	switch hubCode(answer.Body) {
	case feedback.CodeInvalidRequest, feedback.CodeInvalidGrant, feedback.CodeAgentAuthUnavailable, "unsupported_grant_type":
		return answer.Status >= 400
	}
	return false
}

// neverArrived reports whether the request cannot have reached the Hub, because there was no
// connection.
func neverArrived(err error) bool {
	_, unresolved := errors.AsType[*net.DNSError](err)
	return unresolved || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// end sets the outcome and closes everything. Only the first call does that; every call
// returns when it is done.
func (l *Login) end(outcome error) {
	l.ending.Do(func() {
		l.mu.Lock()
		l.over = true
		l.mu.Unlock()
		l.outcome = outcome
		close(l.known)
		l.callback.close()
	})
}
