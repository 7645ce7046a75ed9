package agentauth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/registry"
)

// Tokens, codes, verifiers, states and the query of the address are in no log, no
// error and nothing that prints, however a login ends.
func TestNoSecretShows(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fault{
		"good": nil, "lost": lost(true, io.ErrUnexpectedEOF), "words": instead(400, `{"error":"synthetic-words","access_token":"synthetic-access-1"}`),
		"bad": edited(func(body string) string { return strings.Replace(body, "Bearer", "mac", 1) }), "cut": cut,
		"busy": unasked(503, ""), "workspace": replaced(`["inventory"]`, `["orders"]`),
	} {
		for _, faulty := range []string{"exchange", "session", "revoke"} {
			synctest.Test(t, func(t *testing.T) { printEverything(t, name, faulty, fault) })
		}
	}
}

func printEverything(t *testing.T, name, faulty string, fault fault) {
	h := newHub(t)
	if fault != nil {
		h.fault(func(step string, real func() *http.Response) (*http.Response, error) {
			if step == faulty {
				return fault(step, real)
			}
			return real(), nil
		})
	}
	var printed bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&printed, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client := h.client(agentclient.WithLogger(logger), agentclient.WithMaxRetries(1))
	p := newPipes()
	l, err := client.Begin(t.Context(), agentauth.WithListen(p.listen))
	if err != nil {
		t.Fatal(err)
	}
	done := wait(t.Context(), l)
	back := h.approve(l.URL())
	_, page := browseThrough(t, p.transport(), back)
	w := <-done
	revoked := error(nil)
	if w.err == nil {
		revoked = client.Revoke(t.Context(), w.credentials)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, value := range []any{l, *client, client, w.credentials, w.session, w.err, revoked} {
			fmt.Fprintf(&printed, verb+"\n", value)
		}
	}
	for _, value := range []any{l, client, w.session, w.err, revoked} {
		text, _ := json.Marshal(value)
		printed.Write(text)
	}
	printed.WriteString(page)
	if !strings.Contains(printed.String(), "operation=login") {
		t.Errorf("%s: no record was written", name)
	}
	code := back[strings.Index(back, "synthetic-code-"):]
	for what, secret := range map[string]string{
		"a token or a server's word": "synthetic-", "the state": l.State(), "the verifier": l.Verifier(), "the code": code, "the query": "authorization_id",
		"a token, as numbers": fmt.Sprintf("%x", "synthetic-access"), "the state, as numbers": fmt.Sprintf("%x", l.State()),
	} {
		if strings.Contains(printed.String(), secret) {
			t.Errorf("%s at %s: %s shows:\n%s", name, faulty, what, printed.String())
		}
	}
}

// What is handed to a host prints no token either.
func TestResultsShowNoSecret(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	made := mustLogIn(t, registry.NewMemory(), agreeing(t, h))
	text := fmt.Sprintf("%+v %#v", made, made)
	if encoded, err := json.Marshal(made); err != nil || strings.Contains(text+string(encoded), "synthetic") {
		t.Errorf("%s%s, %v", text, encoded, err)
	}
}
