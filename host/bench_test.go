package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/paired"
	"github.com/bailinghub/bailinghub-go/registry"
)

// field is what the benchmarks of inspections share: a Hub on loopback that
// answers at once, and the clients that ask it.
type field struct {
	b        *testing.B
	bare     func()
	client   func(opts ...agentclient.Option) func()
	host     func(store registry.Store, opts ...agentclient.Option) func()
	original host.Original
	store    *registry.Memory
}

func newField(b *testing.B) *field {
	const (
		capabilities = `{"schema_version":"bailing.agent-invocation-inspection-capabilities.v1","receipt_schema":"bailing.agent-invocation-receipt.v1","read_only":true}`
		session      = "11111111-1111-4111-8111-111111111111"
	)
	id := strings.Repeat("a", 64)
	receipt := `{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"` + id +
		`","agent_run_id":"33333333-3333-4333-8333-333333333333","route":"inventory","tool":"goods_update","observed_at":"2026-09-15T12:00:00.000Z",` +
		`"result":{"schema_version":"bailing.agent-tool-invocation.v1","invocation_id":"` + id + `","route":"inventory","tool":"goods_update","state":"executed","ok":true,"auto_retry_allowed":false,"text":"Synthetic result."},` +
		`"result_source":"journal","dispatch_state":"attempted","approval":{"status":"none"},"journal_state":"completed"}`
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		if strings.HasSuffix(r.URL.Path, "/receipt") {
			_, _ = io.WriteString(rw, receipt)
		} else {
			_, _ = io.WriteString(rw, capabilities)
		}
	}))
	b.Cleanup(server.Close)
	f := &field{b: b, store: registry.NewMemory()}
	ctx := context.Background()

	// The floor: two GETs and a decoding that checks nothing.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	b.Cleanup(transport.CloseIdleConnections)
	bare := &http.Client{Transport: transport}
	get := func(path string, into any) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/agent-api/v1/tool-invocations/"+path, nil)
		f.must(err)
		r.Header.Set("Authorization", "Bearer synthetic-access")
		answer, err := bare.Do(r)
		f.must(err)
		body, err := io.ReadAll(answer.Body)
		f.must(err)
		answer.Body.Close()
		f.must(json.Unmarshal(body, into))
	}
	f.bare = func() {
		get("inspection-capabilities", new(struct {
			SchemaVersion string `json:"schema_version"`
			ReceiptSchema string `json:"receipt_schema"`
			ReadOnly      bool   `json:"read_only"`
		}))
		get(id+"/receipt", new(struct {
			SchemaVersion string    `json:"schema_version"`
			InvocationID  string    `json:"invocation_id"`
			Route         string    `json:"route"`
			Tool          string    `json:"tool"`
			ObservedAt    time.Time `json:"observed_at"`
			Result        *struct {
				State string `json:"state"`
				OK    bool   `json:"ok"`
				Text  string `json:"text"`
			} `json:"result"`
			DispatchState string `json:"dispatch_state"`
			Approval      struct {
				Status string `json:"status"`
			} `json:"approval"`
			JournalState string `json:"journal_state"`
		}))
	}

	f.client = func(opts ...agentclient.Option) func() {
		client, err := agentclient.New(agentclient.Config{
			HubURL: server.URL, Workspace: "inventory", TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "synthetic-access"}),
		}, opts...)
		f.must(err)
		b.Cleanup(client.CloseIdleConnections)
		return func() {
			_, err := client.InspectInvocation(ctx, id)
			f.must(err)
		}
	}

	connection, err := f.store.Register(ctx, registry.Descriptor{HubURL: server.URL, ClientAppID: "commerce-agent", Workspace: "inventory"})
	f.must(err)
	f.must(f.store.SaveCredentials(ctx, connection.Key, registry.Credentials{
		HubURL: server.URL, ClientAppID: "commerce-agent", Workspace: "inventory", SessionID: session,
		AccessToken: registry.NewSecret("synthetic-access"), RefreshToken: registry.NewSecret("synthetic-refresh"),
		AccessExpiresAt: time.Now().Add(24 * time.Hour), RefreshExpiresAt: time.Now().Add(48 * time.Hour),
	}))
	f.original = host.Original{
		InvocationID: id, ConnectionKey: connection.Key, Workspace: "inventory",
		ExpectedBinding: registry.Binding{HubURL: server.URL, ClientAppID: "commerce-agent", Workspace: "inventory", SessionID: session},
	}
	f.host = func(store registry.Store, opts ...agentclient.Option) func() {
		transport, err := host.New(store, opts...)
		f.must(err)
		b.Cleanup(transport.CloseIdleConnections)
		return func() {
			_, err := transport.InspectInvocation(ctx, f.original)
			f.must(err)
		}
	}
	return f
}

func (f *field) must(err error) {
	if err != nil {
		f.b.Error(err)
	}
}

// atOnce makes one call of many at once.
func atOnce(n int, f func()) func() {
	if n == 1 {
		return f
	}
	return func() {
		var all sync.WaitGroup
		for range n {
			all.Go(f)
		}
		all.Wait()
	}
}

// BenchmarkInspection measures one inspection over loopback beside its floor,
// one after another and 64 at once; the two take turns within one run, and
// ratio is the median over 41 pairs.
//
//	go test -run '^$' -bench Inspection -benchtime 1x ./host
func BenchmarkInspection(b *testing.B) {
	f := newField(b)
	client, reused, onMemory := f.client(), f.client(agentclient.WithNegotiationReuse(time.Hour)), f.host(f.store)
	for _, comparison := range []struct {
		name           string
		subject, floor func()
	}{
		{"agentclient over two bare GETs", client, f.bare},
		{"agentclient with reuse over two bare GETs", reused, f.bare},
		{"host on Memory over agentclient", onMemory, client},
	} {
		for _, parallel := range []struct {
			name  string
			n     int
			calls int
		}{{"1", 1, 200}, {"64 at once", 64, 6}} {
			b.Run(comparison.name+"/"+parallel.name, func(b *testing.B) {
				for b.Loop() {
					result := paired.Compare(41, parallel.calls, atOnce(parallel.n, comparison.subject), atOnce(parallel.n, comparison.floor))
					b.ReportMetric(result.Ratio, "ratio")
					b.ReportMetric(float64(result.Subject.Microseconds())/float64(parallel.n), "µs/inspection")
					b.ReportMetric(float64(result.Floor.Microseconds())/float64(parallel.n), "µs/floor")
				}
			})
		}
	}
}

// BenchmarkBatch measures 5,000 inspections of 3 bindings, 64 at once, at a Hub
// on loopback that takes 2 ms for each answer, beside as many bare GETs, 64 at
// once; the two take turns within one run, and throughput is the median of the
// pairs' ratios. Memory is what is live on top of the bare run, and connections
// are those that the Hub saw.
//
//	go test -run '^$' -bench Batch -benchtime 1x ./host
func BenchmarkBatch(b *testing.B) {
	const (
		bindings, each, atATime = 3, 1667, 64
		latency                 = 2 * time.Millisecond
	)
	ctx := context.Background()
	store := registry.NewMemory()
	var originals []host.Original
	var conns, receipts atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		id, isReceipt := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/agent-api/v1/tool-invocations/"), "/receipt")
		if !isReceipt {
			_, _ = io.WriteString(rw, `{"schema_version":"bailing.agent-invocation-inspection-capabilities.v1","receipt_schema":"bailing.agent-invocation-receipt.v1","read_only":true}`)
			return
		}
		receipts.Add(1)
		_, _ = io.WriteString(rw, `{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"`+id+
			`","agent_run_id":"33333333-3333-4333-8333-333333333333","route":"`+"workspace-"+id[:1]+`","tool":"goods_update","observed_at":"2026-09-15T12:00:00.000Z",`+
			`"result":null,"result_source":"none","dispatch_state":"unknown","approval":{"status":"none"},"journal_state":"absent"}`)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	b.Cleanup(server.Close)
	for n := range bindings {
		workspace := fmt.Sprintf("workspace-%d", n)
		connection, err := store.Register(ctx, registry.Descriptor{HubURL: server.URL, ClientAppID: "commerce-agent", Workspace: workspace})
		if err != nil {
			b.Fatal(err)
		}
		login := registry.Credentials{
			HubURL: server.URL, ClientAppID: "commerce-agent", Workspace: workspace, SessionID: fmt.Sprintf("11111111-1111-4111-8111-%012d", n),
			AccessToken: registry.NewSecret("synthetic-access"), RefreshToken: registry.NewSecret("synthetic-refresh"),
			AccessExpiresAt: time.Now().Add(24 * time.Hour), RefreshExpiresAt: time.Now().Add(48 * time.Hour),
		}
		if err := store.SaveCredentials(ctx, connection.Key, login); err != nil {
			b.Fatal(err)
		}
		for k := range each {
			originals = append(originals, host.Original{
				InvocationID: fmt.Sprintf("%d%063x", n, k), ConnectionKey: connection.Key, Workspace: workspace, ExpectedBinding: login.Binding(),
			})
		}
	}

	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = atATime
	b.Cleanup(transport.CloseIdleConnections)
	bare := func() {
		client := &http.Client{Transport: transport}
		ids := make(chan string, len(originals))
		for _, original := range originals {
			ids <- original.InvocationID
		}
		close(ids)
		var all sync.WaitGroup
		for range atATime {
			all.Go(func() {
				for id := range ids {
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/agent-api/v1/tool-invocations/"+id+"/receipt", nil)
					r.Header.Set("Authorization", "Bearer synthetic-access")
					answer, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			})
		}
		all.Wait()
	}
	inspector, err := host.New(store)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(inspector.CloseIdleConnections)
	batch := func() {
		answered := 0
		for o := range inspector.InspectInvocations(ctx, originals, host.WithConcurrency(atATime)) {
			if o.Err != nil {
				b.Error(o.Err)
			}
			answered++
		}
		if answered != len(originals) {
			b.Errorf("%d answers", answered)
		}
	}
	// A watch of all, none of which ever settles, for some rounds without a pause
	// in between: beside as many batches.
	const rounds = 4
	watch := func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		receipts.Store(0)
		go func() {
			for ctx.Err() == nil && receipts.Load() < int64(rounds*len(originals)) {
				time.Sleep(latency)
			}
			cancel()
		}()
		for range inspector.WatchInvocations(ctx, originals, host.WithConcurrency(atATime), host.WithInterval(1, 1)) {
		}
	}
	batches := func() {
		for range rounds {
			batch()
		}
	}
	for b.Loop() {
		result := paired.Compare(11, 1, batch, bare)
		b.ReportMetric(1/result.Ratio, "throughput")
		b.ReportMetric(float64(len(originals))/result.Subject.Seconds(), "inspections/s")
		result = paired.Compare(11, 1, watch, batches)
		b.ReportMetric(1/result.Ratio, "watch-throughput")
	}
	peak := func(f func()) uint64 {
		runtime.GC()
		stop, highest := make(chan struct{}), make(chan uint64)
		go func() {
			var most uint64
			for {
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapInuse+now.StackInuse)
				select {
				case <-stop:
					highest <- most
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}()
		f()
		close(stop)
		return <-highest
	}
	floor := peak(bare)
	before := conns.Load()
	inspector.CloseIdleConnections()
	used := peak(batch)
	b.ReportMetric((float64(used)-float64(floor))/(1<<20), "MiB-more")
	b.ReportMetric(float64(conns.Load()-before), "connections")
}
