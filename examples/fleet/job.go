package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/bailinghub/bailinghub-go/host"
)

// Inspect is the job of one open operation. River keeps one for each
// invocation: adding it again adds nothing.
type Inspect struct {
	InvocationID string        `json:"invocation_id" river:"unique"`
	Original     host.Original `json:"original"`
}

// Kind implements [river.JobArgs].
func (Inspect) Kind() string { return "inspect_operation" }

// InsertOpts implements [river.JobArgsWithInsertOpts]. A completed job counts
// too: an operation that was reported is not asked about again.
func (Inspect) InsertOpts() river.InsertOpts {
	return river.InsertOpts{
		MaxAttempts: 1000, // only an error counts as one, never a look at what is still open
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStateCompleted, rivertype.JobStatePending,
			rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
		}},
	}
}

// inspector asks about one operation at a time.
type inspector struct {
	river.WorkerDefaults[Inspect]
	pool      *pgxpool.Pool
	transport *host.Transport
	replica   string
}

// Work asks the Hub once. A settled report is written, and the job completed, in
// one transaction, so that it is told exactly once; anything else is looked at
// again when the report says so.
func (w *inspector) Work(ctx context.Context, job *river.Job[Inspect]) error {
	if err := w.note(ctx, job.Args.InvocationID); err != nil {
		return err
	}
	observed, err := w.transport.InspectInvocation(ctx, job.Args.Original)
	if ctx.Err() != nil {
		return ctx.Err() // the replica ends: whatever was asked is asked again
	}
	report := host.Explain(job.Args.Original, observed, err)
	if !report.Settled {
		return river.JobSnooze(pause(report))
	}
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing, after the commit
	if err := tell(ctx, tx, w.replica, report); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// tell is what this host does with what it knows: here, a row that the user sees.
// The table has no unique key: what is told twice shows.
func tell(ctx context.Context, tx pgx.Tx, replica string, report host.Report) error {
	_, err := tx.Exec(ctx, "INSERT INTO told (invocation_id, progress, sentence, replica) VALUES ($1, $2, $3, $4)",
		report.InvocationID, string(report.Progress), report.Sentence, replica)
	return err
}

// note says who asks about what.
func (w *inspector) note(ctx context.Context, invocationID string) error {
	_, err := w.pool.Exec(ctx, "INSERT INTO looks (invocation_id, replica) VALUES ($1, $2)", invocationID, w.replica)
	return err
}

// longest bounds a pause, so that the story ends while somebody watches; a host
// would keep to the report alone.
const longest = 4 * time.Second

// pause is when to look again. What needs a person first is looked at now and
// then all the same.
func pause(report host.Report) time.Duration {
	if report.AskAgainAfterSeconds <= 0 {
		return longest
	}
	return min(longest, time.Duration(report.AskAgainAfterSeconds)*time.Second)
}

// newClient gives the client of one replica; without a worker it only adds jobs.
func newClient(pool *pgxpool.Pool, worker *inspector) (*river.Client[pgx.Tx], error) {
	config := &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 16}},
		// What a killed replica was working on is taken over by another one.
		JobTimeout:           10 * time.Second,
		RescueStuckJobsAfter: 15 * time.Second,
		FetchPollInterval:    500 * time.Millisecond,
		Logger:               quiet,
	}
	if worker == nil {
		config.Queues, config.Workers = nil, nil
		return river.NewClient(riverpgxv5.New(pool), config)
	}
	config.ID = worker.replica
	config.Workers = river.NewWorkers()
	if err := river.AddWorkerSafely(config.Workers, worker); err != nil {
		return nil, err
	}
	return river.NewClient(riverpgxv5.New(pool), config)
}

// add gives each original its job.
func add(ctx context.Context, client *river.Client[pgx.Tx], originals []host.Original) (added int, err error) {
	const most = 1000
	for len(originals) > 0 {
		part := originals[:min(most, len(originals))]
		originals = originals[len(part):]
		params := make([]river.InsertManyParams, len(part))
		for i, original := range part {
			params[i] = river.InsertManyParams{Args: Inspect{original.InvocationID, original}}
		}
		results, err := client.InsertMany(ctx, params)
		if err != nil {
			return added, fmt.Errorf("adding jobs: %w", err)
		}
		for _, result := range results {
			if !result.UniqueSkippedAsDuplicate {
				added++
			}
		}
	}
	return added, nil
}

var errInterrupted = errors.New("interrupted")
