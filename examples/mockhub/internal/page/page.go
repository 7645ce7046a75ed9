// Package page is a page for watching a mock Hub and for making things happen
// at it: sessions, invocations and what a host would learn of each, the log of
// requests, and a button for every situation that matters.
//
// Looking at the page is no request to the Hub: it counts for nothing and no
// fault meets it. Whoever serves it keeps other sites out; see the guard of
// examples/mockhub.
package page

import (
	"embed"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// A Session is one that the page shows, under a name for people.
type Session struct{ Name, ID string }

// Page is the page in front of a Hub. It is safe for concurrent use.
type Page struct {
	hub      *hubtest.Hub
	sessions []Session
	started  time.Time
	before   int // business operations performed before there was a page
	mux      *http.ServeMux
	system   atomic.Int32 // index into systems: what the business system does

	mu      sync.Mutex
	version uint64    // of the Hub, when state was made
	state   []byte    // nil before anybody looked
	until   time.Time // when time alone changes the state; zero for never
	readers []*reader
}

// prefix is where everything of the page lies, but for the page itself, which
// is "/". The Hub has nothing there.
const prefix = "/mockhub/"

// New puts a page in front of hub and takes the business system behind its
// tools over. What happened at the Hub so far does not count as performed.
func New(hub *hubtest.Hub, sessions ...Session) *Page {
	p := &Page{hub: hub, sessions: sessions, started: time.Now(), before: hub.BusinessOperations(), mux: http.NewServeMux()}
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) {
		for name, tool := range r.Tools {
			tool.Run = p.run
			r.Tools[name] = tool
		}
	})
	p.mux.HandleFunc("GET /{$}", p.file)
	p.mux.HandleFunc("GET "+prefix+"{file}", p.file)
	p.mux.HandleFunc("GET "+prefix+"events", p.events)
	p.mux.HandleFunc("POST "+prefix+"do/{button}", p.press)
	return p
}

// ServeHTTP serves the page, and has the Hub answer everything else.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !strings.HasPrefix(r.URL.Path, prefix) && !(r.URL.Path == "/" && reads) {
		p.hub.ServeHTTP(w, r)
		return
	}
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
	p.mux.ServeHTTP(w, r)
	_ = control.Flush() // still within the limit, which is not meant for the connection's next request
	_ = control.SetWriteDeadline(time.Time{})
}

// writeLimit is how long a client may take to take an event or an answer, and
// readLimit how long to say which button it presses.
const writeLimit, readLimit = 5 * time.Second, 5 * time.Second

// headers stand on everything of the page. It loads its own files and nothing
// else, runs no code that stands in the page or comes out of a text, and shows
// in no frame.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Cache-Control":                "no-store",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
}

//go:embed files
var files embed.FS

// file serves one of the files, index.html for "/".
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if r.URL.Path == "/" {
		name = "index.html"
	}
	content, err := files.ReadFile("files/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mimes[path.Ext(name)])
	_, _ = w.Write(content) // whoever went away misses nothing
}

var mimes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// maxBody is more than any button sends.
const maxBody = 4 << 10

// press presses a button: what it does stands in the table buttons.
func (p *Page) press(w http.ResponseWriter, r *http.Request) {
	say := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"said": text})
	}
	button, ok := buttons[r.PathValue("button")]
	if !ok {
		say(http.StatusNotFound, "There is no such button.")
		return
	}
	// A form of another site could not say this type without asking first.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		say(http.StatusUnsupportedMediaType, "A button is pressed with JSON.")
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readLimit))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	var pressed struct{ On, Value string }
	if err != nil || json.Unmarshal(body, &pressed) != nil {
		say(http.StatusBadRequest, "That is not how a button is pressed.")
		return
	}
	text, err := button(p, r, pressed.On, pressed.Value)
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit)) // it may have taken its time
	if err != nil {
		say(http.StatusConflict, inWords(err))
		return
	}
	say(http.StatusOK, text)
}

// inWords says why a button did nothing.
func inWords(err error) string {
	if refusal, ok := errors.AsType[*hubtest.Refusal](err); ok {
		return "The Hub refused, as it would refuse a host: " + statusText(refusal.Status) + ", " + refusal.Code + "."
	}
	text := strings.TrimPrefix(err.Error(), "hubtest: ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
