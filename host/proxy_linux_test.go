//go:build linux

package host_test

import (
	"bufio"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

// A proxy from the environment is used for https and for nothing else, because
// it would see the token of a plain request. The standard library reads the
// environment once in a process, so a process of its own looks; on this system
// it also reads there which certificates to trust.
func TestProxyFromTheEnvironment(t *testing.T) {
	t.Parallel()
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	server := httptest.NewTLSServer(hub)
	t.Cleanup(server.Close)
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.Host)
		mu.Unlock()
		if r.Method != http.MethodConnect {
			http.Error(rw, "only CONNECT", http.StatusBadGateway)
			return
		}
		tunnel(rw, server.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyChild$")
	child.Env = append(os.Environ(), "HTTPS_PROXY="+proxy.URL, "HTTP_PROXY="+proxy.URL, "NO_PROXY=", "SSL_CERT_FILE="+certificate, proxyChild+"=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) == 0 {
		t.Error("the proxy was not asked")
	}
	for _, request := range asked {
		if request != "CONNECT example.com:443" {
			t.Errorf("the proxy was asked for %s", request)
		}
	}
}

const proxyChild = "BAILINGHUB_GO_TEST_PROXY_CHILD"

// TestProxyChild is the child of TestProxyFromTheEnvironment.
func TestProxyChild(t *testing.T) {
	if os.Getenv(proxyChild) == "" {
		return
	}
	// The child has no Hub of its own to log in to: it asks the parent's with a
	// token that the Hub refuses, and a refused answer is an answer.
	ask := func(d registry.Descriptor) error {
		client, err := agentclient.New(agentclient.Config{HubURL: d.HubURL, Workspace: hubtest.DefaultRoute, TokenSource: staticToken{}, AllowInsecureHTTP: d.AllowInsecureHTTP}, agentclient.WithMaxRetries(0))
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		_, err = client.InvocationInspectionCapabilities(t.Context())
		return err
	}
	if err := ask(registry.Descriptor{HubURL: "https://example.com"}); !errors.Is(err, feedback.CodeAgentAuthorizationUnavailable) {
		t.Errorf("https through the proxy: %v", err)
	}
	if err := ask(registry.Descriptor{HubURL: "http://hub.invalid", AllowInsecureHTTP: true}); !errors.Is(err, feedback.CodeAgentTransportUnavailable) {
		t.Errorf("plain http went somewhere: %v", err)
	}
}

// tunnel joins a CONNECT request with an address.
func tunnel(rw http.ResponseWriter, address string) {
	upstream, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(rw, "no upstream", http.StatusBadGateway)
		return
	}
	defer upstream.Close()
	client, buffered, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(upstream, bufio.NewReader(buffered)); upstream.Close() })
	both.Go(func() { _, _ = io.Copy(client, upstream); client.Close() })
	both.Wait()
}

type staticToken struct{}

func (staticToken) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: "synthetic-access"}, nil
}
