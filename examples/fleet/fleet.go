package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/internal/databasetest/server"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// options are how large the story is.
type options struct {
	operations, replicas, kills int
	every                       time.Duration // between two kills
	limit                       time.Duration // for the whole
}

// fleet is the story: a database, a Hub, replicas, and a person who decides.
type fleet struct {
	options
	out      io.Writer
	database *server.Server
	pool     *pgxpool.Pool
	hub      *hubtest.Hub
	key      []byte
	replicas []*replica
	total    int
}

// run plays the story to its end.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	f := &fleet{options: o, out: out, key: make([]byte, sqlstore.KeySize)}
	_, _ = rand.Read(f.key) // It never fails.

	fmt.Fprintln(out, "A private PostgreSQL and a mock Hub start on 127.0.0.1.")
	if f.database, err = server.PostgreSQL(); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, f.database.Close()) }()
	hubURL, stop, err := f.startHub()
	if err != nil {
		return err
	}
	defer stop()
	if err := f.openDatabase(ctx); err != nil {
		return err
	}
	defer f.pool.Close()

	originals, err := f.operate(ctx, hubURL)
	if err != nil {
		return err
	}
	f.total = len(originals)
	client, err := newClient(f.pool, nil)
	if err != nil {
		return err
	}
	added, err := add(ctx, client, originals)
	if err != nil {
		return err
	}
	again, err := add(ctx, client, originals)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d operations were sent, whose answers are lost or still to come: %d jobs, and %d more when they are added again.\n", f.total, added, again)
	sent := f.hub.Requests()
	defer f.endReplicas()
	if err := f.watch(ctx); err != nil {
		return err
	}
	return f.prove(ctx, sent)
}

// startHub serves the mock Hub.
func (f *fleet) startHub() (hubURL string, stop func(), err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	f.hub = hubtest.New()
	serving := &http.Server{Handler: f.hub, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = serving.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() {
		f.hub.Close()
		_ = serving.Close()
	}, nil
}

// openDatabase makes the tables: those of the SDK, of River, and of this host.
func (f *fleet) openDatabase(ctx context.Context) error {
	db, err := f.database.Open() // waits until it answers
	if err != nil {
		return err
	}
	defer db.Close()
	if f.pool, err = pgxpool.New(ctx, f.database.Source); err != nil {
		return err
	}
	store, _, err := openStore(ctx, f.pool, f.key)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(f.pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = f.pool.Exec(ctx, `
CREATE TABLE told (invocation_id text NOT NULL, progress text NOT NULL, sentence text NOT NULL, replica text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE looks (invocation_id text NOT NULL, replica text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON looks (at);`)
	return err
}

// operate is the host before its trouble: it captures each operation, and sends
// it. A third of them waits for a person, a third hangs, and of a third only the
// answer is lost.
func (f *fleet) operate(ctx context.Context, hubURL string) ([]host.Original, error) {
	store, _, err := openStore(ctx, f.pool, f.key)
	if err != nil {
		return nil, err
	}
	session := f.hub.Login(hubtest.Grant{})
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: hubURL, ClientAppID: session.ClientID, Workspace: hubtest.DefaultRoute})
	if err != nil {
		return nil, err
	}
	err = store.SaveCredentials(ctx, connection.Key, registry.Credentials{
		HubURL: hubURL, ClientAppID: session.ClientID, Workspace: hubtest.DefaultRoute, SessionID: session.ID,
		AccessToken: registry.NewSecret(session.AccessToken), RefreshToken: registry.NewSecret(session.RefreshToken),
		AccessExpiresAt: session.AccessExpiresAt, RefreshExpiresAt: session.RefreshExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	transport, err := host.New(store)
	if err != nil {
		return nil, err
	}
	first, err := transport.Capture(ctx, connection.Key, host.NewInvocationID())
	if err != nil {
		return nil, err
	}
	originals := make([]host.Original, f.operations)
	for i := range originals {
		originals[i] = first
		originals[i].InvocationID = host.NewInvocationID()
		operation := hubtest.Submission{InvocationID: originals[i].InvocationID, Route: hubtest.DefaultRoute, Tool: hubtest.WriteTool}
		switch i % 3 {
		case 0:
			operation.Tool = hubtest.GovernedTool
		case 1:
			f.hub.Plan(hubtest.Hanging())
		}
		if _, err := f.hub.Submit(session.ID, operation); err != nil {
			return nil, err
		}
	}
	// What hangs ends, and a person decides, while the replicas ask.
	go f.live(ctx, originals)
	return originals, nil
}

// live lets the business system and a person go on, a little at a time.
func (f *fleet) live(ctx context.Context, originals []host.Original) {
	pause := f.every * time.Duration(max(1, f.kills)) / time.Duration(len(originals)+1)
	for i, original := range originals {
		if !sleep(ctx, pause) {
			return
		}
		switch i % 3 {
		case 0:
			if i%2 == 0 {
				_ = f.hub.Approve(original.InvocationID)
			} else {
				_ = f.hub.Deny(original.InvocationID)
			}
			// The host continues the original by a step of its own, outside the SDK.
			_ = f.hub.Resume(original.InvocationID)
		case 1:
			_ = f.hub.Finish(original.InvocationID, hubtest.Executed("done"))
		}
	}
}

// watch starts the replicas, kills one now and then, and shows how it goes until
// everything was told.
func (f *fleet) watch(ctx context.Context) error {
	for i := range f.options.replicas {
		started, err := startReplica(fmt.Sprint("replica-", i+1), f.database.Source, f.key)
		if err != nil {
			return err
		}
		f.replicas = append(f.replicas, started)
	}
	nextKill := time.Now().Add(f.every)
	for killed := 0; ; {
		told, err := f.show(ctx)
		if err != nil {
			return err
		}
		if told >= f.total && killed >= f.kills {
			return nil
		}
		if killed < f.kills && time.Now().After(nextKill) {
			i := mathrand.IntN(len(f.replicas))
			f.replicas[i].kill()
			killed++
			fmt.Fprintf(f.out, "  %s was killed, and another one takes its place\n", f.replicas[i].name)
			if f.replicas[i], err = startReplica(fmt.Sprintf("replica-%d", len(f.replicas)+killed), f.database.Source, f.key); err != nil {
				return err
			}
			nextKill = time.Now().Add(f.every/2 + mathrand.N(f.every))
		}
		if !sleep(ctx, time.Second) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return errInterrupted
			}
			return fmt.Errorf("only %d of %d operations were told within %v", told, f.total, f.limit)
		}
	}
}

func (f *fleet) endReplicas() {
	for _, r := range f.replicas {
		r.kill()
	}
}

// show prints one line: what River has, what was told, who looked in the last
// second, and what the Hub has counted.
func (f *fleet) show(ctx context.Context) (told int, err error) {
	var waiting, working int
	err = f.pool.QueryRow(ctx, "SELECT count(*) FILTER (WHERE state <> 'running' AND state <> 'completed'), count(*) FILTER (WHERE state = 'running') FROM river_job").Scan(&waiting, &working)
	if err != nil {
		return 0, err
	}
	if err := f.pool.QueryRow(ctx, "SELECT count(*) FROM told").Scan(&told); err != nil {
		return 0, err
	}
	rows, err := f.pool.Query(ctx, "SELECT replica, count(*) FROM looks WHERE at > now() - interval '1 second' GROUP BY replica ORDER BY replica")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	who := ""
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return 0, err
		}
		who += fmt.Sprintf(" %s %d", name, n)
	}
	counts := f.hub.Requests()
	fmt.Fprintf(f.out, "open %6d   asked about now %3d   told %6d   receipts read %6d   last second:%s\n", waiting+working, working, told, counts.Receipt, who)
	return told, rows.Err()
}

// prove compares what was told with what was sent.
func (f *fleet) prove(ctx context.Context, sent hubtest.Counts) error {
	f.endReplicas()
	var told, different, looks int
	if err := f.pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT invocation_id) FROM told").Scan(&told, &different); err != nil {
		return err
	}
	if err := f.pool.QueryRow(ctx, "SELECT count(*) FROM looks").Scan(&looks); err != nil {
		return err
	}
	after := f.hub.Requests()
	receipts := after.Receipt - sent.Receipt
	ratio := float64(receipts) / float64(max(1, looks))
	fmt.Fprintf(f.out, `
ASKING CHANGED NOTHING

  operations sent                        %d
  operations told to their users         %d, each once: %v
  looks that were due                    %d, receipts read: %d (%.2f for each)
  submits and resumes over the network   %d
`, f.total, told, told == different && told == f.total, looks, receipts, ratio, after.Submit-sent.Submit+after.Resume-sent.Resume)
	rows, err := f.pool.Query(ctx, "SELECT progress, count(*) FROM told GROUP BY progress ORDER BY progress")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var progress string
		var n int
		if err := rows.Scan(&progress, &n); err != nil {
			return err
		}
		fmt.Fprintf(f.out, "  told as %-30s %d\n", progress, n)
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case told != f.total || different != f.total:
		return fmt.Errorf("%d reports of %d operations, want one for each of %d", told, different, f.total)
	case after.Submit != sent.Submit || after.Resume != sent.Resume:
		return errors.New("a replica sent an operation")
	case ratio > 1.1:
		return fmt.Errorf("%.2f inspections for each look that was due, want 1.1 at most", ratio)
	}
	return nil
}

// sleep reports whether d went by before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
