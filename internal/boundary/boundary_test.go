package boundary_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	base   = "https://hub.example.com/prefix"
	canary = "synthetic-canary-token"
)

var id = strings.Repeat("a", 64)

func TestHubRequests(t *testing.T) {
	t.Parallel()
	allowed := map[[3]string]bool{
		{"GET", boundary.CapabilitiesPath, ""}:                                 true,
		{"GET", boundary.ReceiptPath(id), ""}:                                  true,
		{"POST", boundary.RefreshPath, ""}:                                     true,
		{"POST", boundary.RefreshPath, "a=1"}:                                  false,
		{"GET", boundary.RefreshPath, ""}:                                      false,
		{"GET", boundary.ReceiptPath(id), "v"}:                                 false,
		{"POST", boundary.ReceiptPath(id), ""}:                                 false,
		{"POST", boundary.CapabilitiesPath, ""}:                                false,
		{"HEAD", boundary.CapabilitiesPath, ""}:                                false,
		{"POST", "/agent-api/v1/tool-invocations", ""}:                         false,
		{"POST", "/agent-api/v1/tool-invocations/" + id + "/resume", ""}:       false,
		{"GET", "/agent-api/v1/tool-invocations/" + id + "/resume", ""}:        false,
		{"GET", "/agent-api/v1/tool-invocations/" + id + "/receipt/", ""}:      false,
		{"GET", "/agent-api/v1/tool-invocations/" + id[1:] + "/receipt", ""}:   false,
		{"GET", "/agent-api/v1/tool-invocations/../" + id + "/receipt", ""}:    false,
		{"GET", "/agent-api/v1/tool-invocations/" + id + "%2Freceipt", ""}:     false,
		{"GET", "/agent-api/v1/tool-invocations/" + "/receipt", ""}:            false,
		{"GET", "//agent-api/v1/tool-invocations/inspection-capabilities", ""}: false,
		{"GET", "", ""}: false,
	}
	for request, want := range allowed {
		if got := boundary.HubRequests(request[0], request[1], request[2]); got != want {
			t.Errorf("%q: %v, want %v", request, got, want)
		}
	}
}

// A login has a list of its own. Of what it allows, an inspection may send the
// one request that both need, and the other way round.
func TestLoginRequests(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 64)
	for request, want := range map[[3]string]bool{
		{"POST", boundary.AuthorizationsPath, ""}:                true,
		{"POST", boundary.RefreshPath, ""}:                       true,
		{"GET", boundary.SessionPath, ""}:                        true,
		{"POST", boundary.RevokePath, ""}:                        true,
		{"GET", boundary.AuthorizationsPath, ""}:                 false,
		{"GET", boundary.RefreshPath, ""}:                        false,
		{"POST", boundary.SessionPath, ""}:                       false,
		{"GET", boundary.RevokePath, ""}:                         false,
		{"DELETE", boundary.SessionPath, ""}:                     false,
		{"PUT", boundary.SessionPath, ""}:                        false,
		{"HEAD", boundary.SessionPath, ""}:                       false,
		{"post", boundary.RevokePath, ""}:                        false,
		{"POST", boundary.AuthorizationsPath, "a=1"}:             false,
		{"GET", boundary.SessionPath, "a=1"}:                     false,
		{"GET", boundary.SessionPath + "/", ""}:                  false,
		{"POST", boundary.AuthorizationsPath + "/x/approve", ""}: false,
		{"POST", boundary.AuthorizationsPath + "/x/deny", ""}:    false,
		{"POST", boundary.AuthorizationsPath + "/x/revoke", ""}:  false,
		{"GET", boundary.AuthorizationsPath + "/x", ""}:          false,
		{"POST", "/agent-auth/v1/sessions/x/revoke", ""}:         false,
		{"PUT", "/agent-auth/v1/sessions/x/subject-display", ""}: false,
		{"GET", boundary.CapabilitiesPath, ""}:                   false,
		{"GET", boundary.ReceiptPath(id), ""}:                    false,
		{"POST", "/agent-api/v1/tool-invocations/" + id, ""}:     false,
		{"POST", "/agent-api/v1/tool-invocations/x/resume", ""}:  false,
		{"GET", boundary.ExecutionReceiptsPath, ""}:              false,
		{"POST", "", ""}: false,
	} {
		if got := boundary.LoginRequests(request[0], request[1], request[2]); got != want {
			t.Errorf("%q: %v, want %v", request, got, want)
		}
		shared := request == [3]string{"POST", boundary.RefreshPath, ""}
		if want && boundary.HubRequests(request[0], request[1], request[2]) != shared {
			t.Errorf("%q: an inspection may send what a login sends", request)
		}
	}
}

func TestExecutionReceiptPath(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"f2eb2710-8e82-464d-a68f-e4f82731a797": "f2eb2710-8e82-464d-a68f-e4f82731a797",
		"rcpt_demo_001":                        "rcpt_demo_001",
		"a b":                                  "a%20b",
		"a/b":                                  "a%2Fb",
		"/a/":                                  "%2Fa%2F",
		`a\b`:                                  `a%5Cb`,
		"a%2Fb":                                "a%252Fb",
		"%2e%2e":                               "%252e%252e",
		"..%2Faudit-logs":                      "..%252Faudit-logs",
		"...":                                  "...",
		"a..b":                                 "a..b",
		".a":                                   ".a",
		"?limit=1":                             "%3Flimit=1",
		"#x":                                   "%23x",
		"a;b,c":                                "a%3Bb%2Cc",
		"回执":                                   "%E5%9B%9E%E6%89%A7",
		"\r\n":                                 "%0D%0A",
		"\u202e":                               "%E2%80%AE",
		strings.Repeat("x", 2048):              strings.Repeat("x", 2048),
		"":                                     "", "/": "", "//": "", `\\`: "", ".": "", "..": "", "../x": "", "x/..": "", "a/../b": "", "./x": "", "a/./b": "", "..//": "", `..\audit-logs`: "", `a\..`: "",
		"\xff": "", "a\xc3": "", "a\x00": "", strings.Repeat("x", 2049): "",
	} {
		path, ok := boundary.ExecutionReceiptPath(id)
		if ok != (want != "") || ok && path != "/v1/execution-receipts/"+want {
			t.Errorf("%q: %q, %v", id, path, ok)
		}
		if ok && !boundary.HermesXRequests("GET", path, "") {
			t.Errorf("%q: the list does not allow it", id)
		}
	}
}

func TestHermesXRequests(t *testing.T) {
	t.Parallel()
	const receipts, audit = boundary.ExecutionReceiptsPath, boundary.AuditLogsPath
	for request, want := range map[[3]string]bool{
		{"GET", receipts, ""}: true,
		{"GET", receipts, "limit=7&offset=14&session_id=a%26b&status=success&tool_name=%E5%B7%A5"}: true,
		{"GET", audit, ""}: true,
		{"GET", audit, "action=GET+%2Fv1%2Fme&from=2026-11-30T00%3A00%3A00Z&limit=1&offset=2&to=2026-12-01T00%3A00%3A00%2B08%3A00"}: true,
		{"POST", receipts, ""}:                     false,
		{"HEAD", receipts, ""}:                     false,
		{"DELETE", receipts + "/x", ""}:            false,
		{"GET", receipts + "/", ""}:                false,
		{"GET", receipts + "/x", "limit=1"}:        false,
		{"GET", receipts + "/x/", ""}:              false,
		{"GET", receipts + "/x/y", ""}:             false,
		{"GET", receipts + "/..", ""}:              false,
		{"GET", receipts + "/%2e%2e", ""}:          false,
		{"GET", receipts + "/%2E", ""}:             false,
		{"GET", receipts + "/..%2Faudit-logs", ""}: false,
		{"GET", receipts + "/%78", ""}:             false,
		{"GET", receipts + "/%zz", ""}:             false,
		{"GET", receipts + "/%2f", ""}:             false,
		{"GET", receipts + "/../audit-logs", ""}:   false,
		{"GET", receipts, "tenant_id=x"}:           false,
		{"GET", receipts, "limit=1&limit=2"}:       false,
		{"GET", receipts, "limit=1;offset=2"}:      false,
		{"GET", receipts, "offset=2&limit=1"}:      false,
		{"GET", receipts, "session_id=%zz"}:        false,
		{"GET", receipts, "action=x"}:              false,
		{"GET", audit, "session_id=x"}:             false,
		{"GET", audit + "/1", ""}:                  false,
		{"GET", audit + "/", ""}:                   false,
		{"GET", "/v1/agent/chat", ""}:              false,
		{"POST", "/v1/agent/chat", ""}:             false,
		{"GET", "/v1/me", ""}:                      false,
		{"GET", "//v1/audit-logs", ""}:             false,
		{"GET", "", ""}:                            false,
		{"GET", boundary.CapabilitiesPath, ""}:     false,
		{"POST", boundary.RefreshPath, ""}:         false,
		{"GET", "/v1/execution-receipts-x", ""}:    false,
		{"GET", "/v1/execution-receipts%2Fx", ""}:  false,
		{"GET", "/V1/execution-receipts", ""}:      false,
	} {
		if got := boundary.HermesXRequests(request[0], request[1], request[2]); got != want {
			t.Errorf("%q: %v, want %v", request, got, want)
		}
	}
}

// A request has the name that it was given, and its answer the one that the
// server gives; a server that was not asked, or answers nonsense, says none.
func TestRequestID(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ sent, answered, want string }{
		"echoed":    {"mine", "mine", "mine"},
		"replaced":  {"mine", "theirs", "theirs"},
		"none":      {"mine", "", ""},
		"nonsense":  {"mine", "a b", ""},
		"too long":  {"mine", strings.Repeat("x", 65), ""},
		"not asked": {"", "theirs", ""},
	} {
		transport := boundary.NewTransport(boundary.Settings{HTTPClient: &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if got := r.Header.Get("X-Request-Id"); got != test.sent || (test.sent == "") != (r.Header["X-Request-Id"] == nil) {
				t.Errorf("%s: sent %q", name, got)
			}
			return &http.Response{StatusCode: 404, Header: http.Header{"X-Request-Id": {test.answered}}, Body: http.NoBody}, nil
		})}})
		client, err := boundary.NewClient(transport, base, boundary.HermesXRequests)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(t.Context(), boundary.Request{Method: "GET", Path: boundary.AuditLogsPath, RequestID: test.sent})
		if err != nil || answer.RequestID != test.want {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
	}
}

// Whatever is asked of a client, its transport sees only what is on the list,
// and the credential only on the way to its own origin.
func TestNothingElseLeaves(t *testing.T) {
	t.Parallel()
	sent := 0
	transport := boundary.NewTransport(boundary.Settings{HTTPClient: &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
		sent++
		if r.URL.Host != "hub.example.com" || r.Host != "hub.example.com" {
			t.Errorf("went to %s, as %s", r.URL.Host, r.Host)
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})}})
	client, err := boundary.NewClient(transport, base, boundary.HubRequests)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []boundary.Request{
		{Method: "POST", Path: "/agent-api/v1/tool-invocations/" + id + "/resume", Body: []byte("{}")},
		{Method: "GET", Path: boundary.CapabilitiesPath, Query: "token=" + canary},
		{Method: "GET", Path: boundary.CapabilitiesPath, Body: []byte("{}")},
		{Method: "GET", Path: boundary.CapabilitiesPath + "?"},
		{Method: "GET", Path: boundary.CapabilitiesPath + "#x"},
		{Method: "GET", Path: ".example.org" + boundary.CapabilitiesPath},
		{Method: "GET", Path: "@elsewhere.example.com" + boundary.CapabilitiesPath},
		{Method: "GET", Path: "/../.." + boundary.CapabilitiesPath},
		{Method: "GET", Path: "/%2e%2e" + boundary.CapabilitiesPath},
		{Method: "GET", Path: "\r\nHost: elsewhere"},
		{Method: "GET ", Path: boundary.CapabilitiesPath},
		{Method: "DELETE", Path: boundary.ReceiptPath(id)},
	} {
		request.Bearer = func(context.Context) (string, error) {
			t.Errorf("the credential was asked for: %s %s", request.Method, request.Path)
			return canary, nil
		}
		if answer, err := client.Do(t.Context(), request); !errors.Is(err, boundary.ErrRefused) {
			t.Errorf("%s %s: %v, %v", request.Method, request.Path, answer, err)
		}
	}
	if sent != 0 {
		t.Fatalf("%d requests left", sent)
	}
	if _, err := client.Do(t.Context(), boundary.Request{Method: "GET", Path: boundary.CapabilitiesPath}); err != nil || sent != 1 {
		t.Errorf("the allowed one: %v, sent %d", err, sent)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A transport that breaks its contract is a lost connection, not a crash.
func TestBrokenTransports(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]roundTripFunc{
		"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		"no body": func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200}, nil },
	} {
		client, err := boundary.NewClient(boundary.NewTransport(boundary.Settings{HTTPClient: &http.Client{Transport: answer}}), base, boundary.HubRequests)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Do(t.Context(), boundary.Request{Method: "GET", Path: boundary.CapabilitiesPath})
		if _, lost := errors.AsType[*boundary.LostError](err); lost != (name == "nothing") || !lost && len(got.Body) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestNewClientRefusesAnUnparsableBase(t *testing.T) {
	t.Parallel()
	if _, err := boundary.NewClient(boundary.NewTransport(boundary.Settings{}), "http://a b/"+canary, boundary.HubRequests); !errors.Is(err, boundary.ErrRefused) || strings.Contains(err.Error(), canary) {
		t.Errorf("%v", err)
	}
}

// What a lost connection shows of its cause never has a text of the server's,
// and never looks like the end of the caller's context.
func TestLostErrorShowsWhatIsSafe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason string
		is     error
	}{
		"refused":          {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused", syscall.ECONNREFUSED},
		"reset":            {&url.Error{URL: "https://" + canary, Err: syscall.ECONNRESET}, "reset", syscall.ECONNRESET},
		"no descriptors":   {&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, "descriptor", syscall.EMFILE},
		"half a body":      {io.ErrUnexpectedEOF, "middle", io.ErrUnexpectedEOF},
		"proxy's text":     {&net.OpError{Op: "proxyconnect", Err: errors.New(canary)}, "", nil},
		"server's text":    {fmt.Errorf("malformed HTTP response %q", canary), "", nil},
		"name not found":   {&net.DNSError{Err: "no such host", Name: "hub.example.com", UnwrapErr: context.DeadlineExceeded}, "resolved", nil},
		"dial limit":       {&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, "too long", os.ErrDeadlineExceeded},
		"not trusted":      {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "not trusted", nil},
		"wrong host":       {&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "hub.example.com"}}, "another host", nil},
		"not known at all": {errors.New(canary), "", nil},
	} {
		lost := boundary.NewLostError(test.err)
		if !strings.Contains(lost.Reason, test.reason) || test.reason == "" && lost.Reason != "" {
			t.Errorf("%s: %q", name, lost.Reason)
		}
		if test.is != nil && !errors.Is(lost, test.is) {
			t.Errorf("%s: %v is not found", name, test.is)
		}
		if errors.Is(lost, context.DeadlineExceeded) || errors.Is(lost, context.Canceled) {
			t.Errorf("%s looks like the end of the caller's context", name)
		}
		for _, cause := range lost.Causes {
			if strings.Contains(cause.Error(), canary) {
				t.Errorf("%s shows %q", name, cause)
			}
		}
	}
}

func TestOwnTransport(t *testing.T) {
	proxy, _ := url.Parse("http://proxy.example.com:3128")
	standard := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = standard })
	proxied := standard.(*http.Transport).Clone()
	proxied.Proxy = http.ProxyURL(proxy)
	for name, global := range map[string]http.RoundTripper{"as usual": proxied, "without a proxy": &http.Transport{}, "replaced": roundTripFunc(nil)} {
		http.DefaultTransport = global
		own := boundary.NewTransport(boundary.Settings{}).Own()
		if own == global {
			t.Errorf("%s: the default transport itself", name)
		}
		if own.MaxIdleConnsPerHost != 64 || own.MaxResponseHeaderBytes == 0 {
			t.Errorf("%s: %d idle connections, %d bytes of headers", name, own.MaxIdleConnsPerHost, own.MaxResponseHeaderBytes)
		}
		if own.Proxy == nil {
			continue
		}
		plain, _ := http.NewRequest("GET", "http://hub.example.com/", nil)
		if via, err := own.Proxy(plain); via != nil || err != nil {
			t.Errorf("%s: plain http goes through %v, %v", name, via, err)
		}
		secure, _ := http.NewRequest("GET", "https://hub.example.com/", nil)
		if via, err := own.Proxy(secure); err != nil || name == "as usual" && (via == nil || *via != *proxy) {
			t.Errorf("%s: https goes through %v, %v", name, via, err)
		}
	}
}

// A GET is not worth the buffer that net/http reads an unknown body into.
// Nothing runs beside this test, so that what is allocated is its own.
func TestGetNeedsNoBuffer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, "{}")
	}))
	t.Cleanup(server.Close)
	transport := boundary.NewTransport(boundary.Settings{})
	t.Cleanup(transport.CloseIdleConnections)
	client, err := boundary.NewClient(transport, server.URL, boundary.HubRequests)
	if err != nil {
		t.Fatal(err)
	}
	const gets, buffer = 200, 32 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range gets {
		if _, err := client.Do(t.Context(), boundary.Request{Method: http.MethodGet, Path: boundary.CapabilitiesPath, Limit: 1 << 10}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / gets; each > buffer {
		t.Errorf("a GET takes %d bytes", each)
	}
}

// certificates are those of package httptest, for a server on 127.0.0.1.
func certificates() []tls.Certificate {
	template := httptest.NewTLSServer(http.NotFoundHandler())
	template.Close()
	return template.TLS.Certificates
}
