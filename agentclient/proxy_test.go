package agentclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

// A proxy that refuses is named with its status, and none of its words. One
// that wants something else of the host is asked once. The client's own
// transport has its proxy from http.DefaultTransport, which this test replaces.
func TestRefusingProxies(t *testing.T) {
	standard := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = standard })
	for status, asked := range map[int]int64{407: 1, 403: 1, 503: 3, 302: 3, 204: 3} {
		var connects atomic.Int64
		proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			connects.Add(1)
			if r.Method != http.MethodConnect || r.Header.Get("Authorization") != "" {
				t.Errorf("the proxy got %s with a credential %q", r.Method, r.Header.Get("Authorization"))
			}
			connection, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			fmt.Fprintf(connection, "HTTP/1.1 %d %s\r\nProxy-Authenticate: Basic realm=%s\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", status, canary, canary)
		}))
		proxyURL, err := url.Parse(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		host := proxyURL.Host
		proxyURL.User = url.UserPassword("someone", "synthetic-password")
		own := standard.(*http.Transport).Clone()
		own.Proxy = http.ProxyURL(proxyURL)
		http.DefaultTransport = own
		client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static(canary)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.InspectInvocation(t.Context(), invocationID)
		failure := failureOf(t, err)
		if failure.Feedback.Code != feedback.CodeAgentTransportUnavailable || failure.StatusCode != 0 || connects.Load() != asked {
			t.Errorf("%d: asked %d times, %v", status, connects.Load(), err)
		}
		text := fmt.Sprintf("%s %+v", failure.Feedback.Message, failure.Unwrap())
		if !strings.Contains(text, fmt.Sprintf("the proxy at %s refused to connect, with status %d", host, status)) || strings.Contains(text, "canary") || strings.Contains(text, "someone") || strings.Contains(text, "password@") {
			t.Errorf("%d: %s", status, text)
		}
		client.CloseIdleConnections()
		proxy.Close()
	}
}

// What the program has set for the answers of its proxies goes on being asked.
func TestTheProgramsOwnLookAtProxies(t *testing.T) {
	standard := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = standard })
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	proxyURL, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	own := standard.(*http.Transport).Clone()
	own.Proxy = http.ProxyURL(proxyURL)
	looked := 0
	own.OnProxyConnectResponse = func(context.Context, *url.URL, *http.Request, *http.Response) error {
		looked++
		return errors.New("not this one")
	}
	http.DefaultTransport = own
	client, err := agentclient.New(agentclient.Config{HubURL: hubURL, Workspace: workspace, TokenSource: static(canary)}, agentclient.WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	_, err = client.InspectInvocation(t.Context(), invocationID)
	if failureOf(t, err).Feedback.Code != feedback.CodeAgentTransportUnavailable || looked != 1 {
		t.Errorf("looked %d times, %v", looked, err)
	}
}
