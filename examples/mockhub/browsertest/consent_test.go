package browsertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// A login is one under way, of a program on this machine.
type login struct {
	*agentauth.Login
	t     *testing.T
	ended chan outcome
}

// outcome is what a login ended with.
type outcome struct {
	session agentauth.Session
	err     error
}

// logIn begins a login at the mock Hub.
func (h mockHub) logIn(device string) *login {
	h.t.Helper()
	client, err := agentauth.New(agentauth.Config{HubURL: h.url, ClientAppID: "synthetic-host", Workspace: workspace, DeviceLabel: device})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(client.CloseIdleConnections)
	begun, err := client.Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &login{begun, h.t, make(chan outcome, 1)}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_, session, err := begun.Wait(ctx)
		l.ended <- outcome{session, err}
	}()
	h.t.Cleanup(func() {
		stop()
		<-waiting
		begun.Close()
	})
	return l
}

// code is how the login ended; empty for a good one.
func (l *login) code() (agentauth.Session, feedback.Code) {
	l.t.Helper()
	var o outcome
	select {
	case o = <-l.ended:
	case <-time.After(patience):
		l.t.Fatal("the login does not end")
	}
	if o.err == nil {
		return o.session, ""
	}
	failure, ok := errors.AsType[*feedback.Error](o.err)
	if !ok {
		l.t.Fatal(o.err)
	}
	return o.session, failure.Feedback.Code
}

// sizes are a telephone and a desk.
var sizes = map[string]struct{ width, height int64 }{"narrow": {360, 740}, "wide": {1280, 800}}

// fits says that nothing of the page sticks out to the side.
func (b *tab) fits() {
	b.t.Helper()
	if wide := look[string](b, `document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth + " of " + innerWidth : ""`); wide != "" {
		b.t.Errorf("the page is wider than the window: %s", wide)
	}
}

const heading = `document.querySelector("h1").textContent`

// A person agrees, and comes back to see that it was done. The program has its
// session, and the mock Hub's page shows both.
func TestAgree(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			hub := startHub(t)
			bench := open(t, hub.url)
			bench.untilText("#no-logins", "Nobody has asked to log in yet.")
			l := hub.logIn("Laptop of Dora <b>")
			bench.toFront()
			bench.until(`document.querySelector("#login-list .state").textContent.startsWith("waits for a person until ")`)
			if page := look[string](bench, `document.querySelector("#login-list .decide").href`); page != l.URL() {
				t.Error("the page leads somewhere else")
			}

			b := blank(t)
			b.looksLike("light", size.width, size.height)
			b.visit(l.URL())
			if got := look[string](b, heading); got != "Let Synthetic host act for you?" {
				t.Errorf("it asks %q", got)
			}
			for id, want := range map[string]string{
				"account": "Dora (synthetic) dora", "program": "Synthetic host", "device": "Laptop of Dora <b>", "workspace": workspace,
			} {
				if got := b.text("#" + id); got != want {
					t.Errorf("%s: %q, want %q", id, got, want)
				}
			}
			b.fits()
			b.shoot("consent-" + name)
			b.clickAway(`[value=agree]`)
			session, code := l.code()
			if code != "" || session.OnBehalfOf != "dora" || session.SubjectName != "Dora (synthetic)" {
				t.Fatalf("the login ended with %q: %+v", code, session)
			}
			b.untilText("h1", "You are logged in")
			if secret := look[string](b, `document.documentElement.outerHTML`); strings.Contains(secret, "synthetic-code-") || strings.Contains(secret, "synthetic-access-") {
				t.Error("the page of the program shows a secret")
			}

			// Back again: there is nothing more to decide.
			b.visit(l.URL())
			b.untilText("h1", "You have agreed")
			b.untilText("[role=status]", "The program is logged in. You can close this page.")
			if buttons := look[int](b, `document.querySelectorAll("button").length`); buttons != 0 {
				t.Errorf("it has %d buttons", buttons)
			}
			b.shoot("consent-agreed-" + name)

			bench.toFront()
			bench.untilText("#login-list .state", "logged in")
			row := fmt.Sprintf(`[...document.querySelectorAll("#session-list li")].find((li) => li.querySelector(".id").textContent === %s)`, quote(session.ID))
			bench.until(row + `.querySelector("strong").textContent === "Dora (synthetic)"`)
			bench.looksLike("light", size.width, size.height)
			look[bool](bench, `document.querySelector("#logins").scrollIntoView() === undefined`)
			bench.fits()
			bench.shoot("logins-" + name)
			bench.hush()
			look[bool](bench, row+`.querySelector("[data-do=end]").click() === undefined`)
			if said := bench.said(); !strings.Contains(said, "a person has to log in") {
				t.Errorf("it says %q", said)
			}
			bench.until(row + `.querySelector(".state").textContent === "over"`)
		})
	}
}

// A person refuses: the program is told, and the page remembers.
func TestRefuse(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			hub := startHub(t)
			l := hub.logIn("laptop")
			b := blank(t)
			b.looksLike("dark", size.width, size.height)
			b.visit(l.URL())
			b.fits()
			b.shoot("consent-dark-" + name)
			b.clickAway(`[value=refuse]`)
			if _, code := l.code(); code != feedback.CodeAccessDenied {
				t.Errorf("the login ended with %q", code)
			}
			b.untilText("h1", "The login was refused")
			b.visit(l.URL())
			b.untilText("h1", "You have refused")
		})
	}
}

// A login that nobody decides about in time can be decided about no more.
func TestLetExpire(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			hub := startHub(t)
			bench := open(t, hub.url)
			l := hub.logIn("laptop")
			b := blank(t)
			b.looksLike("light", size.width, size.height)
			b.visit(l.URL())
			b.untilText("h1", "Let Synthetic host act for you?")

			bench.toFront()
			if said := bench.press(`#login-list [data-do=lapse]`); !strings.Contains(said, "too late") {
				t.Errorf("it says %q", said)
			}
			bench.untilText("#login-list .state", "expired")

			b.toFront()
			b.clickAway(`[value=agree]`) // on the page of before
			b.untilText("h1", "This login is over")
			b.fits()
			b.shoot("consent-expired-" + name)
			b.visit(l.URL())
			b.untilText("h1", "This login is over")
			if state := hub.sessions(b); state != 3 {
				t.Errorf("there are %d sessions, want the three that were there", state)
			}
		})
	}
}

// sessions counts those that the mock Hub's page shows.
func (h mockHub) sessions(b *tab) int {
	h.t.Helper()
	b.visit(h.url)
	b.until(`document.querySelector("#connection").textContent === "Following the Hub"`)
	return look[int](b, `document.querySelectorAll("#session-list li").length`)
}

// A person who comes back with the button "back" and presses again is told that
// it was decided, and the login stays what it was.
func TestPressTwice(t *testing.T) {
	hub := startHub(t)
	l := hub.logIn("laptop")
	first, second := blank(t), blank(t)
	first.visit(l.URL())
	second.visit(l.URL())
	first.toFront()
	first.clickAway(`[value=agree]`)
	if _, code := l.code(); code != "" {
		t.Fatalf("the login ended with %q", code)
	}
	second.toFront()
	second.clickAway(`[value=refuse]`)
	second.untilText("h1", "This was decided already")
	second.visit(l.URL())
	second.untilText("h1", "You have agreed")
}

// The page may be opened from another site, and is shown in no frame.
func TestConsentFromElsewhere(t *testing.T) {
	hub := startHub(t)
	l := hub.logIn("laptop")
	b := blankOf(t, false)
	b.visit(strings.Replace(hub.url, "127.0.0.1", "localhost", 1)) // another site
	before := look[float64](b, `performance.timeOrigin`)
	look[bool](b, `(location.href = `+quote(l.URL())+`) !== ""`)
	b.elsewhere(before)
	b.untilText("h1", "Let Synthetic host act for you?")
	framed := look[string](b, `new Promise((resolve) => {
		const f = document.createElement("iframe");
		f.src = location.href;
		f.onload = () => { try { resolve(f.contentDocument.querySelector("h1") ? "shown" : "refused"); } catch { resolve("refused"); } };
		document.body.append(f);
	})`)
	if framed != "refused" {
		t.Errorf("in a frame it is %s", framed)
	}
}
