//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

const clientApp = "demo-client"

// hub is a mock Hub with the page where people decide about logins.
type hub struct {
	*hubtest.Server
	page *hubtest.Consent
	at   string
}

func newHub(t *testing.T) *hub {
	server := hubtest.NewServer(t)
	page := &hubtest.Consent{Hub: server.Hub, ClientID: clientApp, Account: hubtest.Account{ID: "user-1", Name: "Example\u202e Person 例"}}
	served := httptest.NewServer(page)
	t.Cleanup(served.Close)
	server.EditClient(clientApp, func(c *hubtest.Client) { c.AuthorizeURL = served.URL + "/page" })
	return &hub{server, page, served.URL}
}

// living is how many sessions have not ended.
func (h *hub) living() (n int) {
	for _, s := range h.Sessions() {
		if !s.Revoked {
			n++
		}
	}
	return n
}

// agree decides for the person, whose browser then comes back.
func (h *hub) agree(t *testing.T, address string) {
	back, err := h.page.Agree(t.Context(), address)
	visit(t, back, err)
}

func (h *hub) refuse(t *testing.T, address string) {
	back, err := h.page.Refuse(t.Context(), address)
	visit(t, back, err)
}

// visit is a browser at an address.
func visit(t *testing.T, address string, err error) {
	if err != nil {
		t.Error(err)
		return
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(address)
	if err != nil {
		t.Error(err)
		return
	}
	response.Body.Close()
}

// address is that of the page for the one login that there is.
func (h *hub) address(t *testing.T) string {
	t.Helper()
	all := h.Authorizations()
	if len(all) != 1 {
		t.Fatalf("%d logins were begun", len(all))
	}
	return h.at + "/page?authorization_id=" + all[0].ID
}
