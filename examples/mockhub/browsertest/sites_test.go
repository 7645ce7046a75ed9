package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// What another site tries: to press a button, in every way that a page can send
// something, and to read the state.
const attack = `(async (hub) => {
	const results = {};
	const attempt = async (name, f) => { try { results[name] = String(await f()); } catch { results[name] = "failed"; } };
	const press = { method: "POST", body: JSON.stringify({ on: "", value: "on" }) };
	await attempt("JSON", () => fetch(hub + "/mockhub/do/pause", { ...press, headers: { "Content-Type": "application/json" } }).then((r) => r.status));
	await attempt("plain", () => fetch(hub + "/mockhub/do/pause", { ...press, mode: "no-cors" }).then((r) => r.type));
	await attempt("beacon", () => navigator.sendBeacon(hub + "/mockhub/do/pause", new Blob([press.body], { type: "text/plain" })) && "sent");
	await attempt("read", () => fetch(hub + "/mockhub/events").then((r) => r.text()));
	await attempt("blind read", () => fetch(hub + "/", { mode: "no-cors" }).then((r) => r.text()).then((t) => t.length));
	await attempt("events", () => new Promise((resolve, reject) => {
		const source = new EventSource(hub + "/mockhub/events");
		source.onmessage = (e) => resolve(e.data);
		source.onerror = reject;
	}));
	const load = (name, properties) => attempt(name, () => new Promise((resolve, reject) => {
		const e = Object.assign(document.createElement(name), properties);
		e.onload = () => resolve("loaded");
		e.onerror = reject;
		document.body.append(e);
	}));
	await load("script", { src: hub + "/mockhub/page.js" });
	await load("img", { src: hub + "/mockhub/icon.svg" });
	await load("link", { rel: "stylesheet", href: hub + "/mockhub/page.css" });
	const frame = Object.assign(document.createElement("iframe"), { name: "hub" });
	const framed = new Promise((resolve) => { frame.onload = resolve; });
	document.body.append(frame);
	await framed;
	const form = Object.assign(document.createElement("form"), { action: hub + "/mockhub/do/pause", method: "post", enctype: "text/plain", target: "hub" });
	form.append(Object.assign(document.createElement("input"), { name: '{"value":"on","x":"', value: '"}' }));
	document.body.append(form);
	const sent = new Promise((resolve) => { frame.onload = resolve; });
	form.submit();
	await sent;
	return results;
})`

func TestOtherSites(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>another site</title><body>")
	}))
	t.Cleanup(evil.Close)
	for name, site := range map[string]string{
		"another port":        evil.URL,
		"another site":        strings.Replace(evil.URL, "127.0.0.1", "localhost", 1),
		"another local name":  strings.Replace(evil.URL, "127.0.0.1", "evil.localhost", 1),
		"its other name even": strings.Replace(hub.url, "127.0.0.1", "localhost", 1),
	} {
		other := blankOf(t, false)
		other.visit(site)
		if name == "its other name even" {
			// The page itself, under a name that is another origin: its own
			// policy lets it talk to nobody else.
			if got := look[string](other, fmt.Sprintf(`fetch(%s).then(() => "read", () => "refused")`, quote(hub.url+"/"))); got != "refused" {
				t.Errorf("%s: %s", name, got)
			}
			continue
		}
		results := look[map[string]string](other, attack+"("+quote(hub.url)+")")
		for what, got := range results {
			want := "failed"
			switch what {
			case "plain":
				want = "opaque"
			case "beacon":
				want = "sent"
			case "blind read":
				want = "0"
			}
			if got != want && got != "failed" {
				t.Errorf("%s: %s: %q", name, what, got)
			}
		}
		if len(results) != 9 {
			t.Errorf("%s: only %d attempts: %q", name, len(results), results)
		}
	}
	b.submit("product_update") // the Hub is not paused, or this would not come to be
	if b.text("#total") != "0" || b.text("#conditions") != "" {
		t.Error("the Hub noticed something")
	}
}

// A name of another site that resolves to 127.0.0.1 is still another site.
func TestRebinding(t *testing.T) {
	hub := startHub(t)
	at, err := url.Parse(hub.url)
	if err != nil {
		t.Fatal(err)
	}
	b := blankOf(t, false)
	b.visit("http://" + rebound + ":" + at.Port() + "/")
	if text := look[string](b, `document.body.textContent.trim()`); text != "This mock Hub does not answer under this host name." {
		t.Errorf("it answers %q", text)
	}
	if got := look[string](b, `fetch("/mockhub/events").then((r) => r.status + "")`); got != "403" {
		t.Errorf("it answers %s", got)
	}
}

// What the page's own policy forbids does not work in it, and everything that
// it loads is its own.
func TestPolicy(t *testing.T) {
	hub := startHub(t)
	b := blankOf(t, false)
	b.visit(hub.url)
	b.untilText("#connection", "Following the Hub")
	for what, script := range map[string]string{
		"eval":          `new Promise((resolve) => setTimeout(() => { try { resolve(eval("'done'")); } catch { resolve("refused"); } }))`,
		"HTML":          `(() => { try { document.body.innerHTML = "<b>x</b>"; return "made"; } catch { return "refused"; } })()`,
		"inline script": `(() => { const s = document.createElement("script"); try { s.textContent = "window.ran = true"; } catch { return "refused"; } document.body.append(s); return window.ran ? "ran" : "refused"; })()`,
		"inline style":  `(() => { const p = document.createElement("p"); p.setAttribute("style", "color: red"); return p.style.color || "refused"; })()`,
		"elsewhere":     `fetch("http://localhost:1/").then(() => "sent", () => "refused")`,
		"frame":         `new Promise((resolve) => { const f = document.createElement("iframe"); f.src = "/"; f.onload = () => resolve(f.contentDocument ? "shown" : "refused"); document.body.append(f); })`,
	} {
		if got := look[string](b, script); got != "refused" {
			t.Errorf("%s: %s", what, got)
		}
	}
	loaded := look[[]string](b, `performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith(location.origin + "/mockhub/"))`)
	for _, name := range loaded {
		if name != "http://localhost:1/" && name != hub.url+"/" { // refused above
			t.Errorf("it loaded %s", name)
		}
	}
}
