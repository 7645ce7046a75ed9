package hubtest_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

func TestNewServer(t *testing.T) {
	t.Parallel()
	server := hubtest.NewServer(t, hubtest.WithPathPrefix("/bailing/"))
	if !strings.HasPrefix(server.URL, "http://127.0.0.1:") || !strings.HasSuffix(server.URL, "/bailing") {
		t.Errorf("URL %s", server.URL)
	}
	h := newHost(t, server.Hub, server.Login(hubtest.Grant{}))
	h.client, h.url = server.Client(), server.URL
	if got := h.get(capabilitiesPath).status; got != 200 {
		t.Errorf("below the prefix: %d", got)
	}
	h.url = strings.TrimSuffix(server.URL, "/bailing")
	for _, path := range []string{capabilitiesPath, "/bailingx" + capabilitiesPath, "/"} {
		if got := h.get(path); got.status != 404 || got.raw != "404 page not found\n" {
			t.Errorf("%s outside the prefix: %d %q", path, got.status, got.raw)
		}
	}
	if got := server.Requests(); got != (hubtest.Counts{Capabilities: 1, Other: 3}) {
		t.Errorf("requests %+v", got)
	}
	wantPanic(t, func() { hubtest.WithPathPrefix("hub") })
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	server := hub.StartTLS()
	res, err := server.Client().Get(server.URL + capabilitiesPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 401 {
		t.Errorf("%s %s", res.Proto, res.Status)
	}
}

// The Hub is an ordinary handler: below a prefix of somebody else's, and with
// a writer that is no connection.
func TestHandler(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	s := hub.Login(hubtest.Grant{})
	get := func(handler http.Handler, target string) int {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Body = nil
		r.Header.Set("Authorization", "Bearer "+s.AccessToken)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	if got := get(hub, capabilitiesPath); got != 200 {
		t.Errorf("as a handler: %d", got)
	}
	if got := get(http.StripPrefix("/x", hub), "/x"+capabilitiesPath); got != 200 {
		t.Errorf("below a prefix: %d", got)
	}
}

// A request that no connection carries ends with the Hub as well.
func TestCloseEndsHandler(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	hold := hub.Hold(hubtest.AnyRequest, hubtest.AtRequest)
	ended := make(chan any)
	go func() {
		defer func() { ended <- recover() }()
		hub.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}()
	<-hold.Arrived()
	hub.Close()
	if got := <-ended; got != http.ErrAbortHandler {
		t.Errorf("the handler ended with %v", got)
	}
}

func TestOptionsOfTheServer(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://hub.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = "*"
	res, err := hub.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("OPTIONS *: %d, want 401", res.StatusCode)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	host := newHost(t, hub, hub.Login(hubtest.Grant{}))
	for path, want := range map[string]int{
		"":                     401,
		"/":                    401,
		"/agent-api":           401,
		"/agent-auth/v1/other": 404,
		"/agent-api/":          404,
		"/agent-api/v1/./tool-invocations/x/%2E./inspection-capabilities":        200,
		"/../../agent-api/v1/tool-invocations/inspection-capabilities":           200,
		"/agent-api/v1/tool-invocations/inspection-capabilities/.":               404,
		"/agent-api/v1/tool-invocations/inspection-capabilities/x/..":            404,
		"///host/agent-api/v1/tool-invocations/inspection-capabilities":          200,
		"/agent-api//v1/tool-invocations/inspection-capabilities":                404,
		"/agent-api/v1/tool-invocations/inspection-capabilities%3Fa":             404,
		"/agent-api/v1/tool-invocations/inspection-capabilities?":                200,
		"/agent-api/v1/tool-invocations/x/../inspection-capabilities?a=b":        400,
		"/agent-api/v1/tool-invocations/" + idA + "%0A/receipt":                  404,
		"/agent-api/v1/tool-invocations/" + idA + "/receipt/../../%2e":           404,
		"/agent-api/v1/tool-invocations/" + idA + "/resume":                      404,
		"/agent-api/v1/tool-invocations/" + strings.Repeat("0", 64) + "/receipt": 404,
	} {
		if got := host.get(path).status; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func TestInspectionOfOtherVersions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inspection                hubtest.Inspection
		status                    int
		contentType, capabilities string
		receipt                   string
	}{
		"v1":     {hubtest.InspectionV1, 200, "application/json; charset=utf-8", "bailing.agent-invocation-inspection-capabilities.v1", "bailing.agent-invocation-receipt.v1"},
		"newer":  {hubtest.InspectionNewer, 200, "application/json; charset=utf-8", "bailing.agent-invocation-inspection-capabilities.v2", "bailing.agent-invocation-receipt.v2"},
		"absent": {hubtest.InspectionAbsent, 404, "application/json; charset=utf-8", "", ""},
		"page":   {hubtest.InspectionAbsentWebPage, 200, "text/html; charset=utf-8", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t)
			s := hub.Login(hubtest.Grant{})
			host := newHost(t, hub, s)
			id := submit(t, hub, s, hubtest.ReadTool)
			hub.SetInspection(tt.inspection)
			for path, schema := range map[string]string{capabilitiesPath: tt.capabilities, receiptPath(id): tt.receipt} {
				res, err := host.request(t.Context(), http.MethodGet, path, "")
				must(t, err)
				res.Body.Close()
				if got := res.Header.Get("Content-Type"); res.StatusCode != tt.status || got != tt.contentType {
					t.Errorf("%s: %d %s", path, res.StatusCode, got)
				}
				if got := host.get(path).text("schema_version"); got != schema {
					t.Errorf("%s: schema %q, want %q", path, got, schema)
				}
			}
			if got := host.do(http.MethodPost, submitPath, `{"route":"catalog-agent","tool":"product_list"}`).text("state"); got != "executed" {
				t.Errorf("submit: %q", got)
			}
		})
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	host := newHost(t, hub, hub.Login(hubtest.Grant{}))
	status := func() int { return host.get(capabilitiesPath).status }
	hub.Break(hubtest.ToolService, hubtest.AuthStorage)
	got := []int{status()}
	hub.Repair(hubtest.AuthStorage)
	got = append(got, status())
	hub.Repair()
	got = append(got, status())
	hub.Break(hubtest.ToolService)
	host.token = "nobody"
	got = append(got, status())
	if diff := cmp.Diff([]int{500, 503, 200, 401}, got); diff != "" {
		t.Errorf("statuses:\n%s", diff)
	}
}

// Close ends what hangs, and the bubble fails when it leaves a goroutine.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := hubtest.New()
		host := newHost(t, hub, hub.Login(hubtest.Grant{}))
		hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) {
			r.Tools["forever"] = hubtest.Tool{Run: func(ctx context.Context, _ hubtest.Operation) hubtest.Outcome {
				<-ctx.Done()
				return hubtest.AnswerLost()
			}}
		})
		hub.Hold(hubtest.CapabilitiesRequest, hubtest.AtRequest)
		hub.Plan(hubtest.Hanging())
		var wg sync.WaitGroup
		for _, request := range [][3]string{
			{http.MethodGet, capabilitiesPath, ""},
			{http.MethodPost, submitPath, `{"route":"catalog-agent","tool":"product_update"}`},
			{http.MethodPost, submitPath, `{"route":"catalog-agent","tool":"forever"}`},
		} {
			wg.Go(func() {
				if _, err := host.try(t.Context(), request[0], request[1], request[2]); err == nil {
					t.Errorf("%s was answered", request[1])
				}
			})
			synctest.Wait()
		}
		hub.Close()
		if got := len(hub.Log()); got != 3 {
			t.Errorf("%d requests were over when Close returned, want 3", got)
		}
		wg.Wait()
		hub.Close()
		if _, err := host.try(t.Context(), http.MethodGet, capabilitiesPath, ""); err == nil {
			t.Error("a closed Hub answered")
		}
		if _, err := (&http.Client{Transport: hub.Transport()}).Get("http://hub.example"); err == nil {
			t.Error("a closed Hub answered a new transport")
		}
		if got := hub.Requests().Total(); got != 3 {
			t.Errorf("%d requests, want 3", got)
		}
	})
}

func TestCloseServers(t *testing.T) {
	t.Parallel()
	hub := hubtest.New()
	plain, secure := hub.Start(), hub.StartTLS()
	for _, s := range []*hubtest.Server{plain, secure} {
		hold := hub.Hold(hubtest.AnyRequest, hubtest.AtBody)
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		<-hold.Arrived()
	}
	plain.Close()
	for _, s := range []*hubtest.Server{plain, secure} {
		if res, err := s.Client().Get(s.URL); err == nil {
			res.Body.Close()
			t.Errorf("%s: a closed Hub answered", s.URL)
		}
	}
	wantPanic(t, func() { hub.Start() })
	w := httptest.NewRecorder()
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("a closed Hub handled a request")
		}
	}()
	hub.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
}

// A connection on which nothing is asked is closed, as by the real Hub.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []hubtest.Option
		want time.Duration
	}{
		"default": {nil, 5 * time.Second},
		"given":   {[]hubtest.Option{hubtest.WithIdleTimeout(time.Minute)}, time.Minute},
		"kept":    {[]hubtest.Option{hubtest.WithIdleTimeout(0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := newHub(t, test.opts...)
				transport := hub.Transport().(*http.Transport)
				transport.DisableKeepAlives = false
				closed := make(chan time.Time, 1)
				dial := transport.DialContext
				transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					return &watchedConn{conn, closed}, err
				}
				defer transport.CloseIdleConnections()
				res, err := (&http.Client{Transport: transport}).Get("http://hub.example/")
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				asked := time.Now()
				select {
				case at := <-closed:
					if got := at.Sub(asked); got != test.want {
						t.Errorf("closed after %v, want %v", got, test.want)
					}
				case <-time.After(time.Hour):
					if test.want != 0 {
						t.Errorf("not closed after an hour, want %v", test.want)
					}
				}
			})
		})
	}
}

// watchedConn tells when the other side ended the connection.
type watchedConn struct {
	net.Conn
	closed chan time.Time
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		select {
		case c.closed <- time.Now():
		default:
		}
	}
	return n, err
}
