package browsertest

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

// A scene is a login under way, at a Hub and a business system of its own.
type scene struct {
	hub   *hubtest.Server
	page  *hubtest.Consent
	store *registry.Memory
	// address is the one that the person opens.
	address string
	// giveUp ends the wait; ended is how the login ended.
	giveUp context.CancelFunc
	ended  <-chan error
	made   agentauth.Result
}

func beginLogin(t *testing.T) *scene {
	t.Helper()
	s := &scene{hub: hubtest.NewServer(t), store: registry.NewMemory()}
	s.page = &hubtest.Consent{Hub: s.hub.Hub, Account: hubtest.Account{ID: "user-1", Name: "Example Person 例"}}
	served := httptest.NewServer(s.page)
	t.Cleanup(served.Close)
	s.hub.EditClient(hubtest.DefaultClient, func(c *hubtest.Client) { c.AuthorizeURL = served.URL })

	ctx, giveUp := context.WithCancel(t.Context())
	t.Cleanup(giveUp)
	shown, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		var err error
		s.made, err = agentauth.LogIn(ctx, s.store, agentauth.Config{
			HubURL: s.hub.URL, ClientAppID: hubtest.DefaultClient, Workspace: hubtest.DefaultRoute, DeviceLabel: "Test device",
		}, agentauth.LogInOptions{Show: func(_ context.Context, prompt agentauth.Prompt) error {
			shown <- prompt.URL
			return nil
		}})
		ended <- err
	}()
	select {
	case s.address = <-shown:
	case err := <-ended:
		t.Fatal(err)
	}
	s.giveUp, s.ended = giveUp, ended
	return s
}

// clickAway clicks what sends the browser to another page, and waits for that.
func (b *tab) clickAway(selector string) {
	b.t.Helper()
	before := look[float64](b, `performance.timeOrigin`)
	b.click(selector)
	b.elsewhere(before)
}

// elsewhere waits until the tab shows another document than the one that began
// at this time. What is asked of one that goes away is asked of the next.
func (b *tab) elsewhere(before float64) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	for ctx.Err() == nil {
		now, err := chromedp.Run(ctx, chromedp.Evaluate[float64](`new Promise((resolve) => requestAnimationFrame(() => resolve(document.readyState === "complete" ? performance.timeOrigin : 0)))`, chromedp.EvalAwaitPromise))
		if err == nil && now != 0 && now != before {
			return
		}
	}
	b.t.Fatal("the browser stays where it is")
}

// comesBack waits until the tab shows the page of the program that waits, with
// this heading, and looks at it.
func (b *tab) comesBack(heading, shot string) {
	b.t.Helper()
	b.untilText("h1", heading)
	if wide := look[bool](b, `document.documentElement.scrollWidth > innerWidth`); wide {
		b.t.Error("the page is wider than the window")
	}
	if look[int](b, `document.querySelectorAll("script, img, link, style, form, a").length`) != 0 {
		b.t.Error("the page has more than text")
	}
	b.shoot(shot)
}

func TestLoginThatIsAgreedTo(t *testing.T) {
	for name, width := range map[string]int64{"wide": 1200, "narrow": 360} {
		t.Run(name, func(t *testing.T) {
			s := beginLogin(t)
			b := blank(t)
			b.looksLike("light", width, 700)
			b.visit(s.address)
			b.untilText("#device", "Test device")
			b.clickAway("button.agree")
			b.comesBack("You are logged in", "login-agreed-"+name)
			if err := <-s.ended; err != nil {
				t.Fatal(err)
			}
			credentials, err := s.store.Credentials(t.Context(), s.made.Connection.Key)
			if err != nil || credentials.SessionID != s.made.Session.ID || s.made.Session.SubjectName != "Example Person 例" {
				t.Errorf("%+v, %v", s.made, err)
			}
			if live := s.hub.Sessions(); len(live) != 1 || live[0].ID != s.made.Session.ID {
				t.Errorf("%+v", live)
			}
		})
	}
}

func TestLoginThatIsRefused(t *testing.T) {
	for name, width := range map[string]int64{"wide": 1200, "narrow": 360} {
		t.Run(name, func(t *testing.T) {
			s := beginLogin(t)
			b := blank(t)
			b.looksLike("dark", width, 700)
			b.visit(s.address)
			b.clickAway("button:not(.agree)")
			b.comesBack("The login was refused", "login-refused-"+name)
			if err := <-s.ended; !errors.Is(err, feedback.CodeAccessDenied) {
				t.Error(err)
			}
			if connections, err := s.store.List(t.Context()); err != nil || len(connections) != 0 || len(s.hub.Sessions()) != 0 {
				t.Errorf("%v, %v, %v", connections, err, s.hub.Sessions())
			}
		})
	}
}

// Nobody can agree after the time is over; the program goes on waiting, and ends
// without a session.
func TestLoginThatExpires(t *testing.T) {
	s := beginLogin(t)
	b := blank(t)
	b.visit(s.address)
	for _, asked := range s.hub.Authorizations() {
		if !s.hub.ExpireAuthorization(asked.ID) {
			t.Fatal("it does not expire")
		}
	}
	b.clickAway("button.agree")
	b.until(`!document.querySelector("button")`)
	select {
	case err := <-s.ended:
		t.Fatal(err)
	default:
	}
	s.giveUp()
	if err := <-s.ended; !errors.Is(err, context.Canceled) || len(s.hub.Sessions()) != 0 {
		t.Error(err, s.hub.Sessions())
	}
}

// The browser comes back twice: the second time it is told so, and the first one
// still is told how the login ended.
func TestLoginThatComesBackTwice(t *testing.T) {
	s := beginLogin(t)
	hold := s.hub.Hold(hubtest.ExchangeRequest, hubtest.AtRequest)
	back, err := s.page.Agree(t.Context(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	first := blank(t)
	before := look[float64](first, `performance.timeOrigin`)
	look[bool](first, `(location.href = `+quote(back)+`) !== ""`)
	<-hold.Arrived()
	second := blank(t)
	second.visit(back)
	second.comesBack("This login has come back already", "login-twice")
	hold.Release()
	first.toFront()
	first.elsewhere(before)
	first.comesBack("You are logged in", "login-first")
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
