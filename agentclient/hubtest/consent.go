package hubtest

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// An Account is a person's account in a business system. Every zero field has a default or
// means none.
type Account struct {
	// ID of the account; [DefaultAccount] when empty.
	ID string
	// Tenant that the account belongs to; empty is none.
	Tenant string
	// Roles of the account; nil is none.
	Roles []string
	// OnBehalfOf says for whom a session acts; ID when empty.
	OnBehalfOf string
	// Name to show for the account; empty is none.
	Name string
}

// A Consent is the page of a business system on which a person agrees to a
// login: what [Authorization] waits for. It shows the account, the device and
// the workspaces, and has two buttons. It is an [http.Handler], for a person
// with a browser:
//
//	page := httptest.NewServer(&hubtest.Consent{Hub: hub})
//	hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.AuthorizeURL = page.URL })
//
// Its methods Agree and Refuse press the two buttons, for a test without a browser. In both
// cases the page sends requests to the Hub over HTTP, as the backend of a business system
// does: they are counted and logged as [ConsentRequest], and faults apply to them.
//
// Its fields must not be changed once it is used. It is safe for concurrent use.
type Consent struct {
	// Hub whose logins are decided about; must not be nil.
	Hub *Hub
	// ClientID of the client app whose page it is; [DefaultClient] when empty.
	ClientID string
	// Account of the person who is logged in with the business system.
	Account Account
	// Routes that the person agrees to; nil is all that were asked for.
	Routes []string

	once   sync.Once
	client *http.Client
}

// Agree presses the button of that name on the page of this address, and
// returns the address that the browser is sent to: the client app's callback,
// with a code. The error is a *[Refusal] where the Hub refused.
func (c *Consent) Agree(ctx context.Context, authorizationURL string) (callback string, err error) {
	return c.decide(ctx, authorizationURL, true)
}

// Refuse presses the button of that name, as Agree does the other one. The
// callback then says access_denied.
func (c *Consent) Refuse(ctx context.Context, authorizationURL string) (callback string, err error) {
	return c.decide(ctx, authorizationURL, false)
}

func (c *Consent) decide(ctx context.Context, authorizationURL string, agrees bool) (string, error) {
	u, err := url.Parse(authorizationURL)
	if err != nil {
		return "", errors.New("hubtest: the address of the page is no URL")
	}
	id := u.Query().Get(authorizationParameter)
	asked, err := c.context(ctx, id)
	if err != nil {
		return "", err
	}
	return c.tell(ctx, asked, agrees)
}

// authorizationParameter is what the Hub adds to the address of the page.
const authorizationParameter = "authorization_id"

// context asks the Hub what the page has to show.
func (c *Consent) context(ctx context.Context, id string) (asked contextJSON, err error) {
	if !uuidForm.MatchString(id) {
		return asked, refuse(404, "not_found")
	}
	return asked, c.call(ctx, http.MethodGet, id, nil, &asked)
}

// tell tells the Hub what the person decided, and returns where the browser goes.
func (c *Consent) tell(ctx context.Context, asked contextJSON, agrees bool) (string, error) {
	var done redirectJSON
	if !agrees {
		err := c.call(ctx, http.MethodPost, asked.AuthorizationID+"/deny", struct{}{}, &done)
		return done.RedirectURI, err
	}
	account, routes := c.account(), c.Routes
	if routes == nil {
		routes = asked.RequestedRoutes
	}
	said := approveJSON{
		Principal:  principalJSON{ID: account.ID, Tenant: account.Tenant, Roles: list(account.Roles)},
		OnBehalfOf: account.OnBehalfOf, AllowedRoutes: routes, SubjectDisplay: display(account.Name).SubjectDisplay,
	}
	err := c.call(ctx, http.MethodPost, asked.AuthorizationID+"/approve", said, &done)
	return done.RedirectURI, err
}

type approveJSON struct {
	Principal      principalJSON `json:"principal"`
	OnBehalfOf     string        `json:"on_behalf_of"`
	AllowedRoutes  []string      `json:"allowed_routes"`
	SubjectDisplay *nameJSON     `json:"subject_display"`
}

func (c *Consent) account() Account {
	a := c.Account
	a.ID = cmp.Or(a.ID, DefaultAccount)
	a.OnBehalfOf = cmp.Or(a.OnBehalfOf, a.ID)
	return a
}

func (c *Consent) clientID() string { return cmp.Or(c.ClientID, DefaultClient) }

// call asks the Hub as the backend of the business system does.
func (c *Consent) call(ctx context.Context, method, path string, body, into any) error {
	c.once.Do(func() { c.client = &http.Client{Transport: c.Hub.Transport()} })
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(encode(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://hub.example"+c.Hub.prefix+startPath+"/"+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.Hub.ClientToken(c.clientID()))
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("hubtest: the Hub did not answer the business system: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxRequestBody))
	if err != nil {
		return fmt.Errorf("hubtest: the Hub's answer to the business system was lost: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		var said errorJSON
		_ = json.Unmarshal(raw, &said)
		return refuse(res.StatusCode, said.Error)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return errors.New("hubtest: the Hub's answer to the business system is no JSON")
	}
	return nil
}

//go:embed consent.html
var consentHTML string

// ServeHTTP shows the page to a GET, and takes a press of a button as a POST
// from the page itself. The browser is then sent to the client app.
func (c *Consent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	nonce := randomHex(16)
	for name, value := range map[string]string{
		// There is no form-action, because a browser would apply it to the redirect
		// after the form as well, and refuse to go to the client app.
		"Content-Security-Policy": "default-src 'none'; style-src 'nonce-" + nonce + "'; base-uri 'none'; frame-ancestors 'none'",
		"Cache-Control":           "no-store",
		// With no-referrer, a browser would also leave the Origin out of the form's
		// POST, by which this server checks that the form is its own.
		"Referrer-Policy":        "same-origin",
		"X-Content-Type-Options": "nosniff",
		"X-Frame-Options":        "DENY",
	} {
		w.Header().Set(name, value)
	}
	page := consentPage{Nonce: nonce, Account: c.account()}
	id := ""
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		id = r.URL.Query().Get(authorizationParameter)
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxBusinessBody)
		if http.NewCrossOriginProtection().Check(r) != nil {
			page.say(w, http.StatusForbidden, "This was not pressed here", "Another site sent it. Nothing was decided.")
			return
		}
		if r.ParseForm() != nil {
			page.say(w, http.StatusBadRequest, "This cannot be read", "Nothing was decided. Go back and press the button again.")
			return
		}
		id = r.PostForm.Get(authorizationParameter)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		page.say(w, http.StatusMethodNotAllowed, "There is nothing else to do here", "Open the address that the login showed.")
		return
	}
	asked, err := c.context(r.Context(), id)
	if err != nil {
		page.fail(w, err)
		return
	}
	page.show(asked)
	if r.Method != http.MethodPost {
		page.write(w, http.StatusOK)
		return
	}
	decision := r.PostForm.Get("decision")
	if decision != "agree" && decision != "refuse" {
		page.say(w, http.StatusBadRequest, "This is neither a yes nor a no", "Nothing was decided. Go back and press one of the buttons.")
		return
	}
	callback, err := c.tell(r.Context(), asked, decision == "agree")
	if err != nil {
		page.fail(w, err)
		return
	}
	http.Redirect(w, r, callback, http.StatusSeeOther)
}

// A consentPage is what the person is shown.
type consentPage struct {
	Nonce         string
	Account       Account
	Asked         *contextJSON // nil: there is nothing to decide
	Until         string
	Heading, Text string
}

// show fills the page for an authorization: with the question while it is pending, or else
// with its outcome.
func (p *consentPage) show(asked contextJSON) {
	p.Asked = &asked
	if end, err := time.Parse(time.RFC3339, asked.ExpiresAt); err == nil {
		p.Until = end.UTC().Format("15:04:05 MST")
	}
	said := map[AuthorizationStatus][2]string{
		AuthorizationApproved: {"You have agreed", "The program has not picked the login up yet. You can close this page."},
		AuthorizationConsumed: {"You have agreed", "The program is logged in. You can close this page."},
		AuthorizationDenied:   {"You have refused", "The program was not logged in. You can close this page."},
		AuthorizationExpired:  {"This login is over", "Its time ran out before anybody decided. Start it again in the program."},
		AuthorizationRevoked:  {"This login was taken back", "Start it again in the program."},
	}[asked.Status]
	p.Heading, p.Text = said[0], said[1]
}

// fail says why the Hub did not answer as it should.
func (p *consentPage) fail(w http.ResponseWriter, err error) {
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case !refused:
		p.say(w, http.StatusBadGateway, "The Hub cannot be reached", "Nothing was decided, or it is not known. Load this page again.")
	case refusal.Status == http.StatusNotFound:
		p.say(w, http.StatusNotFound, "There is no such login", "Start it again in the program, and open the address that it shows.")
	case refusal.Status == http.StatusGone:
		p.say(w, http.StatusGone, "This login is over", "Its time ran out before anybody decided. Start it again in the program.")
	case refusal.Status == http.StatusConflict:
		p.say(w, http.StatusConflict, "This was decided already", "Load this page again to see how.")
	case refusal.Status == http.StatusForbidden:
		p.say(w, http.StatusForbidden, "This cannot be agreed to", "The program may not use one of these workspaces. Nothing was decided.")
	default:
		p.say(w, http.StatusBadGateway, "The Hub refused", fmt.Sprintf("It answered %d %s. Nothing was decided.", refusal.Status, refusal.Code))
	}
}

func (p *consentPage) say(w http.ResponseWriter, status int, heading, text string) {
	p.Asked, p.Heading, p.Text = nil, heading, text
	p.write(w, status)
}

func (p *consentPage) write(w http.ResponseWriter, status int) {
	var b bytes.Buffer
	if err := template.Must(template.New("consent").Funcs(template.FuncMap{"join": strings.Join}).Parse(consentHTML)).Execute(&b, p); err != nil {
		panic(err) // impossible: the values are of this package
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // an error means that the client has gone away
}
