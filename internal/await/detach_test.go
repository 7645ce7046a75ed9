package await_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/await"
)

type valueKey struct{}

func TestDetach(t *testing.T) {
	t.Parallel()
	fired := ""
	caller, end := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "kept"))
	caller = httptrace.WithClientTrace(caller, &httptrace.ClientTrace{
		GetConn:      func(string) { fired += "GetConn " },
		ConnectStart: func(string, string) { fired += "ConnectStart " }, // of package net
		DNSStart:     func(httptrace.DNSStartInfo) { fired += "DNSStart " },
		WroteRequest: func(httptrace.WroteRequestInfo) { fired += "WroteRequest " },
	})
	end(nil)
	detached := await.Detach(caller)
	if err := detached.Err(); err != nil || detached.Done() != nil {
		t.Errorf("it has ended: %v", err)
	}
	if detached.Value(valueKey{}) != "kept" || detached.Value(nil) != nil {
		t.Error("it does not have the values of its caller")
	}

	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	get := func(ctx context.Context) {
		t.Helper()
		transport := &http.Transport{DialContext: new(net.Dialer).DialContext, DisableKeepAlives: true}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	get(detached)
	if fired != "" {
		t.Errorf("the caller's hooks fired: %s", fired)
	}
	own := ""
	get(httptrace.WithClientTrace(detached, &httptrace.ClientTrace{GetConn: func(string) { own += "GetConn " }}))
	if own != "GetConn " || fired != "" {
		t.Errorf("the hooks of its own: %q; the caller's: %q", own, fired)
	}
	get(context.WithoutCancel(caller))
	if fired == "" {
		t.Error("this test sees nothing")
	}
}
