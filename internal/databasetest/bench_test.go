package databasetest_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal/sqljournal"
	"github.com/bailinghub/bailinghub-go/internal/paired"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// benchHub answers at once: every operation was executed.
func benchHub(b *testing.B) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		if !strings.HasSuffix(r.URL.Path, "/receipt") {
			_, _ = io.WriteString(rw, `{"schema_version":"bailing.agent-invocation-inspection-capabilities.v1","receipt_schema":"bailing.agent-invocation-receipt.v1","read_only":true}`)
			return
		}
		id := path.Base(path.Dir(r.URL.Path))
		_, _ = io.WriteString(rw, `{"schema_version":"bailing.agent-invocation-receipt.v1","read_only":true,"business_operation_performed":false,"invocation_id":"`+id+
			`","agent_run_id":"33333333-3333-4333-8333-333333333333","route":"inventory","tool":"goods_update","observed_at":"2026-09-15T12:00:00.000Z",`+
			`"result":{"schema_version":"bailing.agent-tool-invocation.v1","invocation_id":"`+id+`","route":"inventory","tool":"goods_update","state":"executed","ok":true,"auto_retry_allowed":false,"text":"Synthetic result."},`+
			`"result_source":"journal","dispatch_state":"attempted","approval":{"status":"none"},"journal_state":"completed"}`)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// loginStore is what a store of the benchmarks can do.
type loginStore interface {
	registry.Store
	Register(context.Context, registry.Descriptor, ...registry.RegisterOption) (registry.Connection, error)
	SaveCredentials(context.Context, string, registry.Credentials) error
}

// asking gives a transport over a store that is logged in at a Hub, and one of
// its originals.
func asking(b *testing.B, store loginStore, hubURL string) (*host.Transport, host.Original) {
	b.Helper()
	connection, err := store.Register(b.Context(), registry.Descriptor{HubURL: hubURL, ClientAppID: "commerce-agent", Workspace: "inventory"})
	must(b, err)
	must(b, store.SaveCredentials(b.Context(), connection.Key, loginOf(connection, 1)))
	transport, err := host.New(store)
	must(b, err)
	b.Cleanup(transport.CloseIdleConnections)
	original, err := transport.Capture(b.Context(), connection.Key, strings.Repeat("a", 64))
	must(b, err)
	return transport, original
}

func inspects(b *testing.B, store loginStore, hubURL string) func() {
	transport, original := asking(b, store, hubURL)
	return func() {
		if _, err := transport.InspectInvocation(context.Background(), original); err != nil {
			b.Fatal(err)
		}
	}
}

func atOnce(n int, f func()) func() {
	return func() {
		var group sync.WaitGroup
		for range n {
			group.Go(f)
		}
		group.Wait()
	}
}

// An inspection on a database beside one on Memory, and how many bare queries by
// key the difference is: an inspection makes three.
func BenchmarkInspection(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			hubURL := benchHub(b)
			db, err := sql.Open(d.server.Driver, d.server.Source)
			must(b, err)
			defer db.Close()
			db.SetMaxIdleConns(64)
			if d.dialect != sqlstore.SQLite {
				db.SetMaxOpenConns(64)
			}
			store, err := sqlstore.Open(b.Context(), db, d.dialect, sqlstore.WithNamespace("bench-"+strings.ToLower(d.name)), sqlstore.WithKeys(key(1)))
			must(b, err)
			subject, floor := inspects(b, store, hubURL), inspects(b, registry.NewMemory(), hubURL)
			placeholder := "?"
			if d.dialect == sqlstore.PostgreSQL {
				placeholder = "$1"
			}
			query := func() {
				var hub, client, workspace string
				var login []byte
				must(b, db.QueryRowContext(context.Background(), "SELECT hub_url, client_app_id, workspace, login FROM bailinghub_connections WHERE namespace = "+placeholder+" LIMIT 1", "bench-"+strings.ToLower(d.name)).Scan(&hub, &client, &workspace, &login))
			}
			result := paired.Compare(21, 50, subject, floor)
			bare := paired.Compare(21, 50, query, query)
			extra := result.Subject - result.Floor
			b.ReportMetric(float64(extra.Microseconds()), "µs-more")
			b.ReportMetric(float64(extra)/float64(bare.Subject), "queries-more")
			many := paired.Compare(11, 5, atOnce(64, subject), atOnce(64, floor))
			b.ReportMetric(many.Ratio, "ratio-64-at-once")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// 5,000 operations in a batch of 64 at once, beside the same on Memory, at a Hub
// that answers at once.
func BenchmarkBatch(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			hubURL := benchHub(b)
			batch := func(store loginStore) func() {
				transport, original := asking(b, store, hubURL)
				originals := make([]host.Original, 5000)
				for i := range originals {
					originals[i] = original
					originals[i].InvocationID = host.NewInvocationID()
				}
				return func() {
					for o := range transport.InspectInvocations(context.Background(), originals, host.WithConcurrency(64)) {
						if o.Err != nil {
							b.Fatal(o.Err)
						}
					}
				}
			}
			store, err := sqlstore.Open(b.Context(), d.db, d.dialect, namespace(), sqlstore.WithKeys(key(1)))
			must(b, err)
			result := paired.Compare(3, 1, batch(store), batch(registry.NewMemory()))
			b.ReportMetric(1/result.Ratio, "of-Memory's-throughput")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fill adds n open operations, due, by statements of the database's own.
func (d *database) fill(b *testing.B, name string, n int) {
	b.Helper()
	const columns = "(namespace, invocation_id, call_hash, call_id, original, about, state, report, note, created_at, updated_at, added, changed, due_at)"
	const row = `{"invocation_id":"%s","connection_key":"conn_00000000000000000000000000000000","workspace":"shop","expected_binding":{"hub_url":"https://hub.example.com","client_app_id":"commerce-agent","workspace":"shop","session_id":"11111111-1111-4111-8111-111111111111"},"tool":"","agent_run_id":""}`
	for done := 0; done < n; {
		part := min(1000, n-done)
		values := make([]string, part)
		for i := range values {
			id := fmt.Sprintf("%064x", done+i)
			values[i] = fmt.Sprintf("('%s', '%s', '%s', '%s', '%s', '', 'prepared', '', '', 1, 1, '', '', %d)", name, id, id, id, fmt.Sprintf(row, id), done+i+1)
		}
		_, err := d.db.Exec("INSERT INTO bailinghub_operations " + columns + " VALUES " + strings.Join(values, ", "))
		must(b, err)
		done += part
	}
}

var many = 1_000_000

// Claiming 20 of a million open operations beside 20 of a thousand.
func BenchmarkClaim(b *testing.B) {
	for _, d := range databases {
		if d.name == "PgBouncer" {
			continue // the same database as PostgreSQL
		}
		b.Run(d.name, func(b *testing.B) {
			few, lots := newName(), newName()
			d.fill(b, few, 1000)
			d.fill(b, lots, many)
			if d.dialect == sqlstore.PostgreSQL {
				_, err := d.db.Exec("VACUUM ANALYZE bailinghub_operations")
				must(b, err)
			}
			claims := func(name string) func() {
				j, err := sqljournal.Open(b.Context(), d.db, d.dialect, sqljournal.WithNamespace(name), sqljournal.WithClaim(time.Second))
				must(b, err)
				return func() {
					if _, err := j.Claim(context.Background(), 20); err != nil {
						b.Fatal(err)
					}
				}
			}
			result := paired.Compare(21, 2, claims(lots), claims(few))
			b.ReportMetric(result.Ratio, "of-a-thousand's-time")
			b.ReportMetric(float64(result.Subject.Microseconds()), "µs/claim")
			b.ReportMetric(0, "ns/op")
		})
	}
}
