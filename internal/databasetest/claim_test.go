package databasetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/host/journal/sqljournal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// original is one of a session that is nowhere.
func original(id string) host.Original {
	return host.Original{
		InvocationID: id, ConnectionKey: "conn_" + strings.Repeat("0", 32), Workspace: "shop",
		ExpectedBinding: registry.Binding{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "shop", SessionID: "11111111-1111-4111-8111-111111111111"},
	}
}

// add adds n operations.
func add(t testing.TB, j *sqljournal.Journal, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = host.NewInvocationID()
		must(t, j.Add(t.Context(), journal.Entry{CallID: "call-" + ids[i], Original: original(ids[i])}))
	}
	return ids
}

func settled(id string) host.Report {
	return host.Report{InvocationID: id, Answered: true, Settled: true, Progress: receipt.ProgressExecuted, Next: host.NextReport}
}

// Of many who claim at once, each entry goes to one.
func TestClaimGivesEachEntryToOne(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		name := newName()
		j := d.journal(t, name)
		want := add(t, j, 60)
		var mu sync.Mutex
		got := map[string]int{}
		var group sync.WaitGroup
		for range 4 {
			own := d.journal(t, name)
			group.Go(func() {
				for {
					claims, err := own.Claim(context.Background(), 7)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, claim := range claims {
						got[claim.Entry.Original.InvocationID]++
					}
					all := len(got)
					mu.Unlock()
					if len(claims) == 0 && all >= len(want) {
						return
					}
				}
			})
		}
		group.Wait()
		for _, id := range want {
			if got[id] != 1 {
				t.Errorf("%s was claimed %d times", id, got[id])
			}
		}
		if wait, ok, err := j.NextDue(t.Context()); err != nil || !ok || wait <= time.Minute || wait > 2*time.Minute {
			t.Errorf("NextDue of what was claimed: %v, %v, %v", wait, ok, err)
		}
	})
}

// A claim runs out; what its holder finds out later still counts, and is told
// once.
func TestClaimRunsOut(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		name := newName()
		first, second := d.journal(t, name, sqljournal.WithClaim(time.Second)), d.journal(t, name)
		id := add(t, first, 1)[0]
		late, err := first.Claim(t.Context(), 1)
		must(t, err)
		if again, err := second.Claim(t.Context(), 1); err != nil || len(again) != 0 {
			t.Fatalf("claimed twice: %v, %v", again, err)
		}
		<-time.After(1100 * time.Millisecond)
		taken, err := second.Claim(t.Context(), 1)
		if err != nil || len(taken) != 1 || len(late) != 1 {
			t.Fatalf("after the claim has run out: %v, %v", taken, err)
		}
		told := 0
		tell := func(context.Context, *sql.Tx, journal.Entry) error {
			told++
			return nil
		}
		entry, err := late[0].Record(t.Context(), settled(id), tell)
		if err != nil || entry.State != journal.StateSettled {
			t.Errorf("the late report: %v, %v", entry.State, err)
		}
		if _, err := taken[0].Record(t.Context(), settled(id), tell); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("the other report: %v", err)
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

// What is to be done with a settled operation is done with its record, or not at
// all.
func TestSettledInTheTransaction(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		_, err := d.db.Exec("CREATE TABLE IF NOT EXISTS told (id char(64) PRIMARY KEY)")
		must(t, err)
		j := d.journal(t, newName())
		id := add(t, j, 1)[0]
		claims, err := j.Claim(t.Context(), 10)
		must(t, err)
		tell := func(ctx context.Context, tx *sql.Tx, entry journal.Entry) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO told (id) VALUES ('"+entry.Original.InvocationID+"')")
			return err
		}
		failed := errors.New("the queue is full")
		_, err = claims[0].Record(t.Context(), settled(id), func(ctx context.Context, tx *sql.Tx, entry journal.Entry) error {
			return errors.Join(tell(ctx, tx, entry), failed)
		})
		if !errors.Is(err, failed) {
			t.Errorf("Record whose function fails: %v", err)
		}
		wantTold := func(want int) {
			t.Helper()
			var got int
			must(t, d.db.QueryRow("SELECT COUNT(*) FROM told WHERE id = '"+id+"'").Scan(&got))
			if got != want {
				t.Errorf("%d rows of the host, want %d", got, want)
			}
		}
		wantTold(0)
		if entry, err := j.FindInvocation(t.Context(), id); err != nil || !entry.IsOpen() {
			t.Errorf("after it failed: %v, %v", entry.State, err)
		}
		_, err = claims[0].Record(t.Context(), settled(id), tell)
		must(t, err)
		wantTold(1)
	})
}

// An entry goes into the host's own transaction, with what the host writes.
func TestAddInATransaction(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		j := d.journal(t, newName())
		there := add(t, j, 1)[0]
		entry := func(id string) journal.Entry { return journal.Entry{CallID: "call-" + id, Original: original(id)} }
		undone, done := host.NewInvocationID(), host.NewInvocationID()

		tx, err := d.db.Begin()
		must(t, err)
		must(t, j.AddTx(t.Context(), tx, entry(undone)))
		must(t, tx.Rollback())
		if _, err := j.FindInvocation(t.Context(), undone); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("after a rollback: %v", err)
		}

		tx, err = d.db.Begin()
		must(t, err)
		if err := j.AddTx(t.Context(), tx, entry(there)); !errors.Is(err, journal.ErrExists) {
			t.Errorf("a call that was made before: %v", err)
		}
		must(t, j.AddTx(t.Context(), tx, entry(done))) // the transaction goes on
		must(t, tx.Commit())
		_, err = j.FindInvocation(t.Context(), done)
		must(t, err)
	})
}

// The pause between two questions grows while nothing new is learned, and a
// person's time counts.
func TestPauses(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		j := d.journal(t, newName(), sqljournal.WithClaim(time.Second), sqljournal.WithLongestPause(time.Minute))
		id := add(t, j, 1)[0]
		flying := host.Report{InvocationID: id, Answered: true, Progress: receipt.ProgressInFlight, Next: host.NextLookLater, AskAgainAfterSeconds: 5}
		for _, step := range []struct {
			report host.Report
			want   time.Duration
		}{
			{flying, 5 * time.Second}, {flying, 10 * time.Second}, {flying, 20 * time.Second}, {flying, 40 * time.Second}, {flying, time.Minute}, {flying, time.Minute},
			{host.Report{InvocationID: id, Code: feedback.CodeAgentTransportUnavailable, Next: host.NextAskAgain, AskAgainAfterSeconds: 120}, 2 * time.Minute},
			{host.Report{InvocationID: id, Answered: true, Progress: receipt.ProgressAwaitingApproval, Next: host.NextPersonDecides, AskAgainAfterSeconds: 30}, 30 * time.Second},
			{host.Report{InvocationID: id, Answered: true, Progress: receipt.ProgressUnresolved, Next: host.NextPersonReconciles}, time.Minute},
		} {
			_, err := j.Record(t.Context(), id, step.report)
			must(t, err)
			if wait, ok, err := j.NextDue(t.Context()); err != nil || !ok || wait > step.want || wait < step.want-time.Second {
				t.Errorf("after %s: asked about in %v, want %v (%v, %v)", step.report.Progress, wait, step.want, ok, err)
			}
		}
		must(t, j.GiveUp(t.Context(), id, "the operator looked at the shop"))
		if _, ok, err := j.NextDue(t.Context()); err != nil || ok {
			t.Errorf("nothing is open: %v, %v", ok, err)
		}
	})
}

// A conflict, or a lost answer, at any statement changes nothing of what becomes
// of an operation.
func TestJournalFaultAtEveryStatement(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		db := d.faulty(t, &f)
		for _, fault := range []struct {
			name     string
			err      error
			executed bool
		}{
			{"a conflict", d.conflict(), false},
			{"a lost answer", errors.New("unexpected EOF"), true},
		} {
			for n := 0; ; n++ {
				f.reset(nil)
				j, err := sqljournal.Open(t.Context(), db, d.dialect, sqljournal.WithNamespace(newName()))
				must(t, err)
				hit := false
				f.reset(func(at int, _ string) (error, bool) {
					if at != n {
						return nil, true
					}
					hit = true
					return fault.err, fault.executed
				})
				if err := lifeOfAnOperation(t.Context(), j); err != nil {
					t.Errorf("%s at statement %d: %v", fault.name, n, err)
				}
				if !hit {
					break
				}
			}
		}
		f.reset(nil)
	})
}

func lifeOfAnOperation(ctx context.Context, j *sqljournal.Journal) error {
	id, withdrawn := host.NewInvocationID(), host.NewInvocationID()
	for _, each := range []string{id, withdrawn} {
		if err := j.Add(ctx, journal.Entry{CallID: "call-" + each, Original: original(each)}); err != nil {
			return fmt.Errorf("Add: %w", err)
		}
	}
	if err := j.Withdraw(ctx, "call-"+withdrawn); err != nil {
		return fmt.Errorf("Withdraw: %w", err)
	}
	if err := j.Sending(ctx, "call-"+id); err != nil {
		return fmt.Errorf("Sending: %w", err)
	}
	claims, err := j.Claim(ctx, 10)
	if err != nil {
		return fmt.Errorf("Claim: %w", err)
	}
	if len(claims) == 0 {
		return nil // an attempt whose answer was lost had claimed it: it is due again when that has run out
	}
	if entry, err := claims[0].Record(ctx, settled(id), nil); err != nil || entry.State != journal.StateSettled {
		return fmt.Errorf("Record: %v, %w", entry.State, err)
	}
	if entry, err := j.Find(ctx, "call-"+id); err != nil || entry.State != journal.StateSettled {
		return fmt.Errorf("Find: %v, %w", entry.State, err)
	}
	return nil
}

// childThatKeeps keeps a journal until it is killed.
func childThatKeeps(args []string) error {
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(4)
	dialect := dialects[args[2]]
	store, err := sqlstore.Open(context.Background(), db, dialect, sqlstore.WithNamespace(args[3]), sqlstore.WithKeys(key(1)))
	if err != nil {
		return err
	}
	operations, err := sqljournal.Open(context.Background(), db, dialect, sqljournal.WithNamespace(args[3]), sqljournal.WithClaim(2*time.Second))
	if err != nil {
		return err
	}
	transport, err := host.New(store, agentclient.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return operations.Keep(context.Background(), transport, sqljournal.WithBatch(20), sqljournal.OnSettled(func(ctx context.Context, tx *sql.Tx, entry journal.Entry) error {
		// Without a key: told twice would be two rows.
		_, err := tx.ExecContext(ctx, "INSERT INTO settlements (namespace, id) VALUES ('"+args[3]+"', '"+entry.Original.InvocationID+"')")
		return err
	}))
}

// Three replicas keep one journal and are killed in turn: each settled operation
// is told once, and nothing is sent.
func TestKeepByManyReplicas(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		_, err := d.db.Exec("CREATE TABLE IF NOT EXISTS settlements (namespace varchar(64), id char(64))")
		must(t, err)
		w := newWorld(t, d, 30*time.Second)
		operations := d.journal(t, w.namespace)
		const many = 120
		for i := range many {
			id := host.NewInvocationID()
			entry := w.original
			entry.InvocationID = id
			must(t, operations.Add(t.Context(), journal.Entry{CallID: "call-" + id, Original: entry}))
			_, err := w.hub.Submit(w.session.ID, hubtest.Submission{InvocationID: id, Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool})
			must(t, err)
			_ = i
		}
		done := w.hub.BusinessOperations()
		start := func() *childtest.Child {
			child := childtest.Start(t, "keep", d.server.Driver, d.server.Source, d.dialect.String(), w.namespace)
			child.Says("ready")
			return child
		}
		replicas := []*childtest.Child{start(), start(), start()}
		count := func() (n int) {
			must(t, d.db.QueryRow("SELECT COUNT(*) FROM settlements WHERE namespace = '"+w.namespace+"'").Scan(&n))
			return n
		}
		deadline := time.Now().Add(2 * time.Minute)
		for round := 0; count() < many; round++ {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d were told", count(), many)
			}
			<-time.After(200 * time.Millisecond)
			if round < 3 {
				must(t, replicas[round].Process.Kill())
				replicas[round].Killed()
				replicas[round] = start()
			}
		}
		for _, child := range replicas {
			must(t, child.Process.Kill())
			child.Killed()
		}
		var told, different int
		must(t, d.db.QueryRow("SELECT COUNT(*), COUNT(DISTINCT id) FROM settlements WHERE namespace = '"+w.namespace+"'").Scan(&told, &different))
		if told != many || different != many {
			t.Errorf("%d settlements of %d operations were told, want %d", told, different, many)
		}
		if n := w.hub.BusinessOperations(); n != done {
			t.Errorf("%d business operations, %d before", n, done)
		}
	})
}

// A claim is found by the index, however many operations there are.
func TestClaimUsesTheIndex(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		name := newName()
		add(t, d.journal(t, name), 300)
		explain := "EXPLAIN "
		want := "due_at"
		switch d.dialect {
		case sqlstore.SQLite:
			explain = "EXPLAIN QUERY PLAN "
		case sqlstore.PostgreSQL:
			_, err := d.db.Exec("ANALYZE bailinghub_operations")
			must(t, err)
			want = "Index"
		case sqlstore.MySQL:
			want = "namespace_3"
		}
		rows, err := d.db.Query(explain + "SELECT number FROM bailinghub_operations WHERE namespace = '" + name + "' AND state = 'prepared' AND due_at <= 1 ORDER BY due_at LIMIT 10")
		must(t, err)
		defer rows.Close()
		columns, err := rows.Columns()
		must(t, err)
		var plan []string
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(sql.NullString)
			}
			must(t, rows.Scan(values...))
			for _, value := range values {
				plan = append(plan, value.(*sql.NullString).String)
			}
		}
		must(t, rows.Err())
		text := strings.Join(plan, " ")
		if !strings.Contains(text, want) || strings.Contains(text, "filesort") || strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "Sort ") {
			t.Errorf("the plan of a claim: %s", text)
		}
	})
}

// Without the table nothing passes: Keep says so at once, and what to do.
func TestKeepWithoutATable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/empty.db")
	must(t, err)
	defer db.Close()
	j, err := sqljournal.Open(t.Context(), db, sqlstore.SQLite)
	must(t, err)
	transport, err := host.New(registry.NewMemory())
	must(t, err)
	if err := j.Keep(t.Context(), transport); err == nil || !strings.Contains(err.Error(), "run Migrate") {
		t.Errorf("Keep: %v", err)
	}
	store, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite, sqlstore.WithKeys(key(1)))
	must(t, err)
	if _, err := store.List(t.Context()); err == nil || !strings.Contains(err.Error(), "run Migrate") {
		t.Errorf("List: %v", err)
	}
}
