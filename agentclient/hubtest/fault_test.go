package hubtest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// onEveryWay runs a test with a Hub of its own for each way to reach it.
func onEveryWay(t *testing.T, test func(t *testing.T, hub *hubtest.Hub, host *host)) {
	t.Helper()
	for name, reach := range map[string]func(hub *hubtest.Hub) (string, *http.Client){
		"in process": func(hub *hubtest.Hub) (string, *http.Client) {
			return "https://hub.example", &http.Client{Transport: hub.Transport()}
		},
		"plain": func(hub *hubtest.Hub) (string, *http.Client) {
			s := hub.Start()
			return s.URL, s.Client()
		},
		"TLS": func(hub *hubtest.Hub) (string, *http.Client) {
			s := hub.StartTLS()
			return s.URL, s.Client()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t)
			h := newHost(t, hub, hub.Login(hubtest.Grant{}))
			h.url, h.client = reach(hub)
			test(t, hub, h)
		})
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	onEveryWay(t, func(t *testing.T, hub *hubtest.Hub, host *host) {
		const op = `{"route":"catalog-agent","tool":"product_update"}`
		for _, tt := range []struct {
			drop       hubtest.Drop
			operations int
			headers    bool // arrive
			status     int  // in the log
		}{
			{hubtest.DropRequest, 0, false, 0},
			{hubtest.DropAnswer, 1, false, 0},
			{hubtest.DropMidBody, 2, true, 200},
			{hubtest.DropNothing, 3, true, 200},
		} {
			hub.Inject(hubtest.Fault{On: hubtest.SubmitRequest, Drop: tt.drop})
			res, err := host.request(t.Context(), http.MethodPost, submitPath, op)
			if (err == nil) != tt.headers {
				t.Errorf("drop %d: error %v", tt.drop, err)
			}
			if err == nil {
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if lost := tt.drop == hubtest.DropMidBody; (err != nil) != lost || len(body) == 0 || lost == bytes.HasSuffix(body, []byte("}")) {
					t.Errorf("drop %d: body %q, error %v", tt.drop, body, err)
				}
			}
			if got := hub.BusinessOperations(); got != tt.operations {
				t.Errorf("drop %d: %d business operations, want %d", tt.drop, got, tt.operations)
			}
			log := hub.Log()
			if got := log[len(log)-1].Status; got != tt.status {
				t.Errorf("drop %d: status %d in the log, want %d", tt.drop, got, tt.status)
			}
		}
		if got := hub.Requests(); got != (hubtest.Counts{Submit: 4}) {
			t.Errorf("requests %+v, want 4 of submit", got)
		}
	})
}

// net/http sends a GET again that found a used connection closed: a fault must
// not vanish that way.
func TestDropOnUsedConnection(t *testing.T) {
	t.Parallel()
	onEveryWay(t, func(t *testing.T, hub *hubtest.Hub, host *host) {
		for _, drop := range []hubtest.Drop{hubtest.DropRequest, hubtest.DropAnswer, hubtest.DropMidBody} {
			host.get(capabilitiesPath)
			before := hub.Requests().Capabilities
			hub.Inject(hubtest.Fault{Drop: drop})
			if _, err := host.try(t.Context(), http.MethodGet, capabilitiesPath, ""); err == nil {
				t.Errorf("drop %d: answered", drop)
			}
			if got := hub.Requests().Capabilities - before; got != 1 {
				t.Errorf("drop %d: %d requests, want 1", drop, got)
			}
		}
	})
}

func TestHold(t *testing.T) {
	t.Parallel()
	onEveryWay(t, func(t *testing.T, hub *hubtest.Hub, host *host) {
		const op = `{"route":"catalog-agent","tool":"product_update"}`
		for i, at := range []hubtest.Point{hubtest.AtRequest, hubtest.AtAnswer, hubtest.AtBody} {
			hold := hub.Hold(hubtest.SubmitRequest, at)
			done := make(chan reply)
			go func() { done <- host.do(http.MethodPost, submitPath, op) }()
			<-hold.Arrived()
			want := i + 1
			if at == hubtest.AtRequest {
				want = i
			}
			if got := hub.BusinessOperations(); got != want {
				t.Errorf("held at %d: %d business operations, want %d", at, got, want)
			}
			hold.Release()
			hold.Release()
			if got := <-done; got.text("state") != "executed" {
				t.Errorf("held at %d: %s", at, got.raw)
			}
		}

		// Two at once, and one that comes when it was released.
		hold := hubtest.NewHold(hubtest.AtAnswer)
		hub.Inject(hubtest.Fault{Hold: hold, Times: 3})
		done := make(chan reply)
		for range 2 {
			go func() { done <- host.do(http.MethodGet, capabilitiesPath, "") }()
		}
		<-hold.Arrived()
		for changed := hub.Changed(); hub.Requests().Capabilities < 2; changed = hub.Changed() {
			<-changed
		}
		hold.Release()
		for _, got := range []reply{<-done, <-done, host.get(capabilitiesPath)} {
			if got.status != 200 {
				t.Errorf("held with another: %d", got.status)
			}
		}

		// A client that gives up while it is held.
		for _, at := range []hubtest.Point{hubtest.AtRequest, hubtest.AtAnswer, hubtest.AtBody} {
			hold := hub.Hold(hubtest.CapabilitiesRequest, at)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := host.try(ctx, http.MethodGet, capabilitiesPath, "")
				done <- err
			}()
			<-hold.Arrived()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("held at %d and cancelled: %v", at, err)
			}
		}
	})
}

func TestAnswerOfFault(t *testing.T) {
	t.Parallel()
	onEveryWay(t, func(t *testing.T, hub *hubtest.Hub, host *host) {
		type got struct {
			Status      int
			ContentType string
			CacheCtrl   string
			RetryAfter  string
			Body        string
		}
		const json, html, noStore = "application/json; charset=utf-8", "text/html", "no-store"
		good := host.get(capabilitiesPath).raw
		for name, tt := range map[string]struct {
			fault hubtest.Fault
			want  got
		}{
			"status":        {hubtest.Fault{Status: 503, Body: []byte(`{"error":"hub_paused"}`), Header: http.Header{"Retry-After": {"1"}}}, got{503, json, noStore, "1", `{"error":"hub_paused"}`}},
			"page":          {hubtest.Fault{Status: 502, Body: []byte("<p>"), Header: http.Header{"Content-Type": {html}, "cache-control": nil}}, got{502, html, "", "", "<p>"}},
			"no body":       {hubtest.Fault{Status: 500}, got{500, json, noStore, "", ""}},
			"no content":    {hubtest.Fault{Status: 204, Body: []byte("dropped by HTTP")}, got{204, json, noStore, "", ""}},
			"header alone":  {hubtest.Fault{Header: http.Header{"Retry-After": {"5"}}}, got{200, json, noStore, "5", good}},
			"rewritten":     {hubtest.Fault{Rewrite: bytes.ToUpper}, got{200, json, noStore, "", strings.ToUpper(good)}},
			"informational": {hubtest.Fault{Status: 103}, got{200, json, noStore, "", good}},
		} {
			hub.Inject(tt.fault)
			res, err := host.request(t.Context(), http.MethodGet, capabilitiesPath, "")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			h := res.Header
			if diff := cmp.Diff(tt.want, got{res.StatusCode, h.Get("Content-Type"), h.Get("Cache-Control"), h.Get("Retry-After"), string(body)}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	hub.Inject(hubtest.Fault{Status: 101, Body: []byte("not read"), Header: http.Header{"Upgrade": {"other"}, "Connection": {"Upgrade"}}})
	res, err := newHost(t, hub, hub.Login(hubtest.Grant{})).request(t.Context(), http.MethodGet, capabilitiesPath, "")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 101 {
		t.Errorf("status %d, want 101", res.StatusCode)
	}
}

func TestEndless(t *testing.T) {
	t.Parallel()
	onEveryWay(t, func(t *testing.T, hub *hubtest.Hub, host *host) {
		hub.Inject(hubtest.Fault{Status: 200, Body: bytes.Repeat([]byte(" "), 64<<10), Endless: true})
		res, err := host.request(t.Context(), http.MethodGet, capabilitiesPath, "")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.CopyN(io.Discard, res.Body, 3<<20)
		if err != nil {
			t.Errorf("after %d bytes: %v", n, err)
		}
		res.Body.Close()
	})
}

func TestCompressed(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 1 << 10 {
		if _, err := z.Write(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, z.Close())
	onEveryWay(t, func(t *testing.T, hub *hubtest.Hub, host *host) {
		hub.Inject(hubtest.Fault{Status: 200, Body: bomb.Bytes(), Header: http.Header{"Content-Encoding": {"gzip"}}})
		if got := host.get(capabilitiesPath); len(got.raw) != 1<<20 {
			t.Errorf("%d bytes after decompression, want 1 MiB", len(got.raw))
		}
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	host := newHost(t, hub, hub.Login(hubtest.Grant{}))
	statuses := func(n int) (out []int) {
		for range n {
			out = append(out, host.get(capabilitiesPath).status)
		}
		return out
	}
	hub.Inject(
		hubtest.Fault{On: hubtest.ReceiptRequest, Status: 555},
		hubtest.Fault{On: hubtest.CapabilitiesRequest, Skip: 2, Times: 2, Status: 502},
		hubtest.Fault{Status: 504},
	)
	if diff := cmp.Diff([]int{504, 200, 502, 502, 200}, statuses(5)); diff != "" {
		t.Errorf("statuses:\n%s", diff)
	}
	hub.Inject(hubtest.Fault{Times: -1, Status: 503})
	if diff := cmp.Diff([]int{503, 503, 503}, statuses(3)); diff != "" {
		t.Errorf("statuses:\n%s", diff)
	}
	hub.ClearFaults()
	if diff := cmp.Diff([]int{200}, statuses(1)); diff != "" {
		t.Errorf("statuses:\n%s", diff)
	}
	wantPanic(t, func() { hub.Inject(hubtest.Fault{Status: 42}) })
}

func TestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(t)
		host := newHost(t, hub, hub.Login(hubtest.Grant{}))
		start := time.Now()
		took := func() time.Duration { d := time.Since(start); start = time.Now(); return d }

		hub.Inject(hubtest.Fault{Latency: 3 * time.Second})
		host.get(capabilitiesPath)
		if got := took(); got != 3*time.Second {
			t.Errorf("latency of 3 s took %v", got)
		}
		hub.Inject(hubtest.Fault{Status: 200, Body: []byte("12345"), ByteInterval: time.Second})
		if got := host.get(capabilitiesPath); got.raw != "12345" {
			t.Errorf("slow body %q", got.raw)
		}
		if got := took(); got != 5*time.Second {
			t.Errorf("five slow bytes took %v", got)
		}

		for name, f := range map[string]hubtest.Fault{
			"latency":   {Latency: time.Hour},
			"slow body": {ByteInterval: time.Minute},
			"endless":   {Status: 200, Body: []byte("x"), Endless: true, ByteInterval: time.Minute},
		} {
			hub.Inject(f)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			if _, err := host.try(ctx, http.MethodGet, capabilitiesPath, ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want the deadline", name, err)
			}
			cancel()
			if got := took(); got != 90*time.Second {
				t.Errorf("%s: gave up after %v", name, got)
			}
		}
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		hold := hub.Hold(hubtest.AnyRequest, hubtest.AtRequest)
		go func() { <-hold.Arrived(); cancel(cause) }()
		if _, err := host.try(ctx, http.MethodGet, capabilitiesPath, ""); !errors.Is(err, cause) {
			t.Errorf("cancelled with a cause: %v", err)
		}
	})
}
