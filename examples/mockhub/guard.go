package main

import (
	"net/http"
	"strconv"
	"strings"
)

// guard lets nobody but a program on this machine, or a page of this server
// itself, through to next: everything else is 403, whatever it asks for.
//
// A web page that some browser on this machine shows could otherwise use the
// Hub, because it too comes from 127.0.0.1. What gives it away is the site it
// says it belongs to, or, after it had its own name resolve to 127.0.0.1 (DNS
// rebinding), that name in the Host header.
//
// The page on which a person agrees to a login may be opened from anywhere, as
// the page of a business system may: from a terminal in a browser, from a chat.
// It shows itself in a tab of its own and to nobody else.
type guard struct {
	port int
	next http.Handler
}

func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if reason := g.refuse(r); reason != "" {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		http.Error(w, "This mock Hub does not answer "+reason+".", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g guard) refuse(r *http.Request) string {
	if !g.own(r.Host) {
		return "under this host name"
	}
	// A browser says where a request comes from, and a page cannot change it.
	// "none" is a person who typed the address.
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if opensConsent(r) {
			continue
		}
		if site != "same-origin" && site != "none" {
			return "another site"
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		if host, ok := strings.CutPrefix(origin, "http://"); !ok || !strings.EqualFold(host, r.Host) {
			return "another site"
		}
	}
	return ""
}

// opensConsent reports whether a person opens the page on which they agree to a
// login, in a tab.
func opensConsent(r *http.Request) bool {
	return r.URL.Path == consentPath && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// own reports whether host is a name of this server.
func (g guard) own(host string) bool {
	for _, name := range []string{"127.0.0.1", "localhost"} {
		if strings.EqualFold(host, name+":"+strconv.Itoa(g.port)) || g.port == 80 && strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}
